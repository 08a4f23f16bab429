"""Files that are written in one go: nobody sees half of one, and of several writers the last one's stays."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """What to write to: a file beside `path`, which takes its place when it is done."""
    part = path.with_name(f".{path.name}.{uuid4().hex}.part")
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
