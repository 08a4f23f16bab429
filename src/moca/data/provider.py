"""Where a data set comes from: a folder or file, an archive, an npm package, or its official place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from moca.data import catalogue
from moca.data.store import Store
from moca.errors import MocaError

Watch = Callable[[str, int, int], None]


@contextmanager
def provide(name: str, source: str | Path | None, store: Store, work: Path, watch: Watch) -> Iterator[Path]:
    """A folder or file that a reader can look at; what had to be fetched is removed once it is stored."""
    path = Path(source).expanduser() if source is not None else None
    if path is None or not path.exists():
        raise MocaError(f"{path} does not exist; check the path")
    yield path
