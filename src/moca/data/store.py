"""The store: data sets as memory-mapped bytes, addressed by their content.

    <data directory>/
      sets/<address>/         train_images.npy train_labels.npy test_images.npy test_labels.npy set.json
      names/<name>.json       which set a name means
      tmp/                    sets being written; moved into place when complete, or removed

Images are (n, height, width, channels) bytes in canonical order, so the same data give the same files whatever
container they came in. A set in place never changes, except for its notes and for damaged files, which are replaced.
"""

from __future__ import annotations

import filecmp
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from moca.atomic import whole
from moca.data.store_failures import failures_told, unwritable
from moca.errors import MocaError
from moca.locking import lock

ARRAYS = ("train_images", "train_labels", "test_images", "test_labels")
VARIABLE = "MOCA_DATA"
_FORMAT = 1
_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")


@dataclass(frozen=True)
class Info:
    """What set.json says about a stored set."""

    address: str
    """Its content address: a digest of the fingerprint and the class names."""
    fingerprint: str
    classes: tuple[str, ...]
    shape: tuple[int, int, int]
    """Height, width, channels."""
    train: tuple[int, ...]
    """Number of training images of each class."""
    test: tuple[int, ...]
    """Number of test images of each class."""
    mean: tuple[float, ...]
    """Mean of each channel of the training images, for pixel values from 0 to 1."""
    std: tuple[float, ...]
    """Standard deviation of each channel, likewise."""
    notes: tuple[str, ...] = ()
    """What a user should know: images skipped, split off, or duplicated under different labels or in both splits."""

    @property
    def images(self) -> int:
        """Number of training and test images together."""
        return sum(self.train) + sum(self.test)

    @property
    def bytes(self) -> int:
        """Size of all pixels."""
        return self.images * int(np.prod(self.shape))


def default_directory() -> Path:
    """$MOCA_DATA, or moca's folder in the system's directory for user data."""
    if os.environ.get(VARIABLE):
        return Path(os.environ[VARIABLE]).expanduser()
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA", "~/AppData/Local")
    elif sys.platform == "darwin":
        base = "~/Library/Application Support"
    else:
        base = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(base).expanduser() / "moca"


class Store:
    """Data sets under one directory."""

    def __init__(self, directory: Path | str | None = None) -> None:
        self.directory = Path(directory).expanduser() if directory else default_directory()
        self.sets, self.names = self.directory / "sets", self.directory / "names"

    def __contains__(self, name: str) -> bool:
        return is_name(name) and (self.names / f"{name}.json").is_file()

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(p.stem for p in self.names.glob("*.json")))

    def entry(self, name: str) -> dict[str, Any]:
        """What was recorded for a name: the set's address, its source, and the known set that it is."""
        path = self.names / f"{name}.json"
        try:
            found = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise MocaError(f"no data set '{name}' in {self.directory} ({error}); add it again") from None
        if not isinstance(found, dict) or not isinstance(found.get("address"), str):
            raise MocaError(f"{path} does not say which data set '{name}' is; remove it or add it again")
        return found

    def address(self, name: str) -> str | None:
        """The address of the set of that name; None if there is none, or its entry is damaged."""
        with suppress(MocaError):
            return cast(str, self.entry(name)["address"])
        return None

    def whole(self, name: str) -> bool:
        """Whether there is a set of that name with a readable set.json."""
        with suppress(MocaError):
            return bool(self.info(name))
        return False

    def path(self, address: str) -> Path:
        """The folder of a set."""
        return self.sets / address[:32]

    def info(self, name: str) -> Info:
        """The set.json of a stored set, by name."""
        path = self.path(self.entry(name)["address"]) / "set.json"
        try:
            raw = json.loads(path.read_text())
            if raw.pop("format", None) != _FORMAT:
                raise MocaError(f"'{name}' was stored by another version of moca; remove it and add it again")
            values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in raw.items()}
            return Info(**values)
        except (OSError, ValueError, TypeError, AttributeError) as error:  # not JSON, or not the expected fields
            raise _unreadable(name, error) from None

    def arrays(self, name: str) -> dict[str, NDArray[Any]]:
        """The memory-mapped arrays of a set, copy-on-write: writing to one changes only this process's view."""
        folder = self.path(self.entry(name)["address"])
        try:
            return {key: np.load(folder / f"{key}.npy", mmap_mode="c", allow_pickle=False) for key in ARRAYS}
        except (OSError, ValueError, EOFError) as error:
            raise _unreadable(name, error) from None

    @contextmanager
    def workspace(self) -> Iterator[Path]:
        """A temporary folder, always removed afterwards; folders left behind by killed processes are removed first."""
        tmp = self.directory / "tmp"
        with failures_told(self.directory):
            try:
                tmp.mkdir(parents=True, exist_ok=True)
            except (NotADirectoryError, FileExistsError, FileNotFoundError) as error:
                raise unwritable(self.directory, error) from None
            with ExitStack() as afterwards:
                with lock(self.directory / "lock"):
                    self._sweep(tmp)
                    work = Path(tempfile.mkdtemp(dir=tmp))
                    afterwards.callback(work.with_suffix(".lock").unlink, missing_ok=True)
                    afterwards.enter_context(lock(work.with_suffix(".lock")))
                    afterwards.callback(shutil.rmtree, work, ignore_errors=True)
                yield work

    def _sweep(self, tmp: Path) -> None:
        for folder in [p for p in tmp.iterdir() if p.is_dir()]:
            with lock(folder.with_suffix(".lock"), wait=False) as abandoned:
                if abandoned:
                    shutil.rmtree(folder, ignore_errors=True)
            if not folder.exists():
                folder.with_suffix(".lock").unlink(missing_ok=True)

    def commit(self, folder: Path, info: Info, name: str, record: dict[str, Any]) -> None:
        """Move finished arrays into place under their address, then point the name at them, under the store's lock."""
        (folder / "set.json").write_text(json.dumps({"format": _FORMAT, **asdict(info)}, indent=1) + "\n")
        for path in folder.iterdir():
            _flush(path)
        with lock(self.directory / "lock"):
            self.sets.mkdir(exist_ok=True)
            target = self.path(info.address)
            if target.exists():
                _renew(target, folder)
            else:
                folder.rename(target)
            self._point(name, {"address": info.address, **record})

    def _point(self, name: str, record: dict[str, Any]) -> None:
        self.names.mkdir(exist_ok=True)
        before = self.address(name)
        with whole(self.names / f"{name}.json") as part:
            part.write_text(json.dumps(record, indent=1) + "\n")
        if before and before != record["address"]:
            self._drop(before)

    def remove(self, name: str) -> None:
        """Remove a name, and delete its images unless another name means the same set."""
        with failures_told(self.directory), lock(self.directory / "lock"):
            address = self.address(name)
            (self.names / f"{name}.json").unlink()
            if address:
                self._drop(address)

    def _drop(self, address: str) -> None:
        others = [self.address(other) for other in self]
        if address not in others and None not in others:  # a name that cannot be read may mean this set
            shutil.rmtree(self.path(address), ignore_errors=True)


def is_name(text: str) -> bool:
    """Whether this can be the name of a stored set; anything else is a path."""
    return _NAME.fullmatch(text) is not None


def _unreadable(name: str, error: Exception) -> MocaError:
    return MocaError(f"the stored copy of '{name}' cannot be read ({error}); remove it and add it again")


def _flush(path: Path) -> None:
    """Flush a file to disk, so that a set in place is complete even after a power failure."""
    with path.open("rb+") as file, suppress(OSError):
        os.fsync(file.fileno())


def _renew(target: Path, folder: Path) -> None:
    """Replace the files of a stored set that differ: damaged ones, and set.json if the notes of this import differ.
    Identical files stay, because other processes may have mapped them."""
    for path in folder.iterdir():
        stored = target / path.name
        if not (stored.is_file() and filecmp.cmp(path, stored, shallow=False)):
            path.replace(stored)
