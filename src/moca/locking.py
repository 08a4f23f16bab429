"""One writer at a time: a lock on a file, let go by the system when its holder ends, however it ends."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

if sys.platform == "win32":
    import msvcrt

    def _acquire(file: int, wait: bool) -> None:
        msvcrt.locking(file, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _acquire(file: int, wait: bool) -> None:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def lock(path: Path, wait: bool = True) -> Iterator[bool]:
    """Hold the lock inside the block; gives False, at once, where `wait` is off and somebody else holds it."""
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            _acquire(file, wait)
        except OSError:
            if wait:
                raise
            yield False
        else:
            yield True
    finally:
        os.close(file)
