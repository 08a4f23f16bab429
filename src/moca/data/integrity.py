"""Check that a stored set is undamaged, and that it is the data set that papers use."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moca.data import catalogue
from moca.data.differences import Differences, compare, describe
from moca.data.fingerprint import Contents, Digests, Place, image_digests
from moca.data.source import in_blocks
from moca.data.store import Info, Store
from moca.errors import MocaError, nearest


@dataclass(frozen=True)
class Checked:
    """The result of checking a stored set."""

    name: str
    info: Info
    fingerprint: str
    """Fingerprint of the images and labels as they are now."""
    intact: bool
    """Whether they are unchanged since they were stored."""
    known: str | None
    """The known data set that it belongs to, if any."""
    differences: Differences | None
    details: tuple[str, ...]
    """One line for each difference."""


def refuse_absent(name: str, store: Store) -> None:
    """Raise if there is no set of that name in the store."""
    if name in store:
        return
    if name in catalogue.names() and catalogue.known(name).embedded:
        raise MocaError(f"'{name}' is inside the package, not in the store: there is nothing to check or remove")
    if name in catalogue.names():
        hint = f"add it with: {catalogue.known(name).adding}"
    else:
        hint = nearest(name, store) + " (stored)" if list(store) else "nothing is"
    raise MocaError(f"'{name}' is not in the store {store.directory}; {hint}")


def check(name: str, *, data_dir: Path | str | None = None) -> Checked:
    """Read every stored image again, and compare with the recorded fingerprint and with the known set, if it is one."""
    store = Store(data_dir)
    refuse_absent(name, store)
    entry, info = store.entry(name), store.info(name)
    found = contents(store.arrays(name))
    fingerprint = found.fingerprint()
    known = catalogue.recorded(entry)
    reference = known.reference() if known and known.fits(info.classes, info.shape) else None
    differences = compare(found, reference) if reference else None
    details = describe(differences, info.classes, _where) if differences else []
    return Checked(
        name, info, fingerprint, fingerprint == info.fingerprint, known.name if known else None, differences,
        tuple(details),
    )  # fmt: skip


def _where(place: Place) -> str:
    return f"image {place.index} of the stored {place.split} images"


def contents(arrays: dict[str, NDArray[Any]]) -> Contents:
    """Labels and image digests of stored arrays."""
    return Contents(
        np.asarray(arrays["train_labels"]), _digests(arrays["train_images"]),
        np.asarray(arrays["test_labels"]), _digests(arrays["test_images"]),
    )  # fmt: skip


def _digests(images: NDArray[np.uint8]) -> Digests:
    blocks = in_blocks(len(images), int(np.prod(images.shape[1:])))
    return np.concatenate([image_digests(images[some]) for some in blocks])
