"""Locks: a file lock between processes, which the system releases when its holder ends for any reason, and a lock
between threads."""

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
    """Hold the lock inside the block; without `wait`, yield False at once if another process holds it.

    The holder may delete the file: a process that had opened it before then retries with the new file of that name.
    """
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            held = _held(file, wait)
            if not held:  # perhaps `is_held` in another process has it for a moment
                time.sleep(0.05)
                held = _held(file, wait)
            if not held or _still_named(file, path):
                yield held
                return
        finally:
            os.close(file)


def is_held(path: Path) -> bool:
    """Whether some process holds the lock. Needs only read access, and does not create the file."""
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        return not _held(file, wait=False, shared=True)  # shared, so that several checks do not block each other
    except OSError:
        return False
    finally:
        os.close(file)


def _held(file: int, wait: bool, shared: bool = False) -> bool:
    try:
        _acquire(file, wait, shared)
    except (BlockingIOError, PermissionError):  # Windows raises PermissionError
        if wait:
            raise
        return False
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.EOPNOTSUPP):
            raise
        if not shared:
            warnings.warn(MocaWarning("the file system does not support locks, so nothing keeps two processes from "
                                      "writing to one folder; start only one in each"), stacklevel=1)  # fmt: skip
    return True


def _still_named(file: int, path: Path) -> bool:
    """Whether the open file is still the one at that path."""
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False


class Turn:
    """A reentrant lock between threads that can be copied and pickled; a copy is a separate lock."""

    def __init__(self) -> None:
        self._lock = RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type[Turn], tuple[()]]:
        return Turn, ()
