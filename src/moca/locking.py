"""One writer at a time: a lock on a file, let go by the system when its holder ends, however it ends."""

import os
import sys
import time
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
    """Hold the lock inside the block; gives False, at once, where `wait` is off and somebody else holds it.

    Its holder may remove the file: who had opened it before takes the next one of that name.
    """
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            held = _held(file, wait)
            if not held:  # perhaps by somebody who only looks whether it is held
                time.sleep(0.05)
                held = _held(file, wait)
            if not held or _still_named(file, path):
                yield held
                return
        finally:
            os.close(file)


def is_held(path: Path) -> bool:
    """Whether somebody holds the lock of that name; the file is not made where there is none."""
    try:
        file = os.open(path, os.O_RDWR)
    except OSError:
        return False
    try:
        return not _held(file, wait=False)
    finally:
        os.close(file)


def _held(file: int, wait: bool) -> bool:
    try:
        _acquire(file, wait)
    except (BlockingIOError, PermissionError):  # the second is Windows' word for it
        if wait:
            raise
        return False
    return True


def _still_named(file: int, path: Path) -> bool:
    """Whether the open file is still the one of that name."""
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False
