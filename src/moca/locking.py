"""One writer at a time: a lock on a file, let go by the system when its holder ends, however it ends; and one thread at
a time."""

from __future__ import annotations

import errno
import os
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import RLock

from moca.errors import MocaWarning

if sys.platform == "win32":
    import msvcrt

    def _acquire(file: int, wait: bool, shared: bool = False) -> None:
        msvcrt.locking(file, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _acquire(file: int, wait: bool, shared: bool = False) -> None:
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        fcntl.flock(file, kind if wait else kind | fcntl.LOCK_NB)


@contextmanager
def lock(path: Path, wait: bool = True) -> Iterator[bool]:
    """Hold the lock inside the block; gives False, at once, where `wait` is off and somebody else holds it.

    Its holder may remove the file: who had opened it before takes the next one of that name.
    """
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
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
    """Whether somebody holds the lock of that name; the file is not made where there is none, and need not be ours."""
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        return not _held(file, wait=False, shared=True)  # those who only look are not in each other's way
    except OSError:
        return False
    finally:
        os.close(file)


def _held(file: int, wait: bool, shared: bool = False) -> bool:
    try:
        _acquire(file, wait, shared)
    except (BlockingIOError, PermissionError):  # the second is Windows' word for it
        if wait:
            raise
        return False
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.EOPNOTSUPP):
            raise
        if not shared:
            warnings.warn(MocaWarning("the file system carries no locks, so that nothing keeps two processes from "
                                      "writing to one folder; start only one in each"), stacklevel=1)  # fmt: skip
    return True


def _still_named(file: int, path: Path) -> bool:
    """Whether the open file is still the one of that name."""
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False


class Turn:
    """Threads take turns inside it. A copy has its own."""

    def __init__(self) -> None:
        self._lock = RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type[Turn], tuple[()]]:
        return Turn, ()
