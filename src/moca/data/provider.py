"""Get the source of a data set: a folder or file, an archive, an npm package, or a download."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from moca.data import catalogue, npm
from moca.data.archive import extract, is_archive
from moca.data.catalogue import Known
from moca.data.download import Unreachable, fetch
from moca.data.place import exists, readable, refuse_unfit
from moca.data.progress import Watch
from moca.data.readers import recognised
from moca.data.store import Store
from moca.errors import MocaError
from moca.locking import lock


@contextmanager
def provide(name: str, source: str | Path | None, store: Store, work: Path, watch: Watch) -> Iterator[Path]:
    """A folder or file for the readers; downloaded files are removed once the set is stored."""
    try:
        with _found(name, source, store, work, watch) as path:
            yield path
    except MocaError as error:
        # name the archive that the user knows, not the folder it was extracted to, and use one line
        text = str(error).replace(f"{work / 'extracted'}/", f"{source or name}:").replace(str(work), str(source))
        error.args = (readable(" ".join(text.splitlines())),)
        raise
    except OSError as error:
        if error.filename and not Path(os.fsdecode(error.filename)).is_relative_to(store.directory):
            raise MocaError(f"cannot read {error.filename} ({error.strerror}); check it and its permissions") from None
        raise


@contextmanager
def _found(name: str, source: str | Path | None, store: Store, work: Path, watch: Watch) -> Iterator[Path]:
    if source is None:
        with _official(catalogue.known(name), store, watch) as path:
            yield _unpacked(path, work, watch)
        return
    package = _package(str(source))
    if package is not None:
        watch(f"npm {package}", 0, 1)
        yield _unpacked(npm.pack(package, work / "npm"), work, watch)
        return
    path = Path(source).expanduser()
    refuse_unfit(path)
    yield _unpacked(path, work, watch)


def _package(source: str) -> str | None:
    """The npm package that `source` means: npm:name, or the bare name of a package that holds a known data set."""
    if source.startswith("npm:"):
        return source.removeprefix("npm:")
    known = [k.npm for k in map(catalogue.known, catalogue.names()) if k.npm]
    if exists(Path(source)):
        return None
    return next((package for package in known if source in (package, package.partition("@")[0])), None)


def _unpacked(path: Path, work: Path, watch: Watch) -> Path:
    if path.is_dir() or recognised(path) or not is_archive(path):
        return path
    watch("extracting", 0, 1)
    extract(path, work / "extracted")
    watch("extracting", 1, 1)
    return work / "extracted"


@contextmanager
def _official(known: Known, store: Store, watch: Watch) -> Iterator[Path]:
    """Download the published files to the store's downloads folder, where they stay until the set is stored; files that
    the user put there are used."""
    if not known.downloads:
        raise MocaError(f"'{known.name}' {known.advice or 'cannot be downloaded; say where it is with source='}")
    folder = store.directory / "downloads" / known.name
    folder.mkdir(parents=True, exist_ok=True)
    with lock(folder / "lock"):
        fetched = [folder / item.file for item in known.downloads if not (folder / item.file).is_file()]
        try:
            files = [fetch(item, folder, watch) for item in known.downloads]
        except Unreachable as error:
            other = (
                f"; or use source=npm:{known.npm}"
                if known.npm
                else f"; '{known.name}' {known.advice}" * bool(known.advice)
            )
            raise MocaError(f"{error}{other}") from None
        yield files[0] if len(files) == 1 else folder
        for file in fetched:
            file.unlink(missing_ok=True)
