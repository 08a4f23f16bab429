"""Load a data set: one that comes with the package, one in the store, or a folder of the user."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import torch

from moca.data import catalogue
from moca.data.adding import add
from moca.data.digits import load_digits
from moca.data.in_memory import Dataset, Split
from moca.data.place import exists, is_broken, named, refuse_unfit
from moca.data.progress import Watch, silent
from moca.data.protocol import Protocol, own_protocol
from moca.data.readers import located
from moca.data.stamp import own_name, stamp_of
from moca.data.store import Store
from moca.data.writer import UnreadableImage
from moca.elsewhere import data_meant
from moca.errors import MocaError, nearest


def load(
    name: str | Path, *, data_dir: Path | str | None = None, size: int | None = None, watch: Watch = silent
) -> Dataset:
    """Load a data set by name, or from a folder or file.

    Images of a stored set are memory-mapped, so only those that are used take up RAM.

    Args:
        name: A stored or embedded set (`moca data ls`), or a folder or file. These are imported into the store the
            first time, and again whenever a file in them has changed.
        data_dir: Where sets are stored; by default `$MOCA_DATA`, or the user's data directory.
        size: Side in pixels to which the images of a folder are resized.
        watch: Progress callback, called with (stage, done, total) while a folder is read.
    """
    if not isinstance(name, str | os.PathLike):
        raise MocaError(f"load takes a name or a path, not {type(name).__name__}; moca.dataset takes images and labels")
    store, text = Store(data_dir), named(os.fspath(name))
    if size is not None and (text == "digits" or text in store):
        raise MocaError(f"'{text}' is stored in its own size; only images of a folder are resized")
    if text == "digits":
        return load_digits()
    if text in store:
        return _open(store, text, text)
    path = Path(text).expanduser()
    if text in catalogue.names():
        raise MocaError(f"'{text}' is not in the store yet; add it with: {catalogue.known(text).adding}")
    if exists(path) or is_broken(path):
        return _own(store, path, size, watch)
    if "/" in text or os.sep in text:
        raise MocaError(f"{text} does not exist; give a folder of images or the name of a data set")
    hint = data_meant(text, catalogue.names()) or nearest(text, {*catalogue.names(), *store})
    raise MocaError(f"unknown data set '{text}' (there is no folder of that name either); {hint}")


def placed(name: str | Path, data_dir: Path | str | None = None) -> str:
    """The argument of `load` made independent of the current directory: a name as it is, a path in full."""
    text = named(os.fspath(name))
    path = Path(text).expanduser()
    known = text in catalogue.names() or text in Store(data_dir) or not exists(path)
    return text if known else os.fspath(path.resolve())


def _own(store: Store, path: Path, size: int | None, watch: Watch) -> Dataset:
    refuse_unfit(path)
    path = path.resolve()
    name = own_name(path, size)
    stored = store.whole(name)
    if path.is_dir() and not stored:
        located(path)  # raises if there is no data set, before the walk over all files
    stamp = stamp_of(path, size)
    if not stored or store.entry(name).get("stamp") != stamp:
        try:
            add(name, path, data_dir=store.directory, size=size, watch=watch, stamp=stamp)
        except UnreadableImage as error:
            add_it = f"moca.data.add('NAME', {str(path)!r})"
            raise MocaError(f"{error} (an option of {add_it}; then use data=NAME)") from None
    return _open(store, name, path.name)


def _open(store: Store, name: str, title: str) -> Dataset:
    info, arrays = store.info(name), store.arrays(name)

    def split(which: str) -> Split:
        images = torch.from_numpy(arrays[f"{which}_images"]).permute(0, 3, 1, 2)
        return Split(images, torch.from_numpy(arrays[f"{which}_labels"]))

    used: tuple[Protocol, Mapping[str, Protocol], Mapping[str, tuple[int, ...]]]
    known = catalogue.recorded(store.entry(name))
    if known and known.fits(info.classes, info.shape):
        used = (known.default, known.protocols, known.orders)
    else:
        used = (own_protocol(info.shape, info.mean, info.std), {}, {})
    return Dataset(title, split("train"), split("test"), info.classes, *used, info.fingerprint, info.notes)
