"""What is said if the store cannot be written to."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from moca.errors import MocaError

_MOVE = "move the store with data_dir= or MOCA_DATA"


@contextmanager
def failures_told(directory: Path) -> Iterator[None]:
    """Turn a full disk or missing write permission into a MocaError."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise MocaError(f"the disk of {directory} is full; free some room, or {_MOVE}") from None
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS) and _inside(error, directory):
            raise unwritable(directory, error) from None
        raise


def unwritable(directory: Path, error: OSError) -> MocaError:
    """The error for a store that cannot be written to."""
    return MocaError(f"cannot write in {directory} ({error.strerror}); {_MOVE}")


def _inside(error: OSError, directory: Path) -> bool:
    named = Path(os.fsdecode(error.filename)) if error.filename else directory
    return named.is_relative_to(directory) or directory.is_relative_to(named)
