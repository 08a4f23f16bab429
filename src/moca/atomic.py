"""Atomic file writes: readers never see a partial file, and with several writers the last one wins."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A temporary file to write to, beside `path`; on success it replaces `path`."""
    part = path.with_name(f".{path.name}.{uuid4().hex}.part")
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
