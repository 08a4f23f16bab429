"""The generator of a data set: trained once, kept beside the data sets, and used again by every run."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch

from moca.data import Dataset, Store, load
from moca.data.store import clear_failures
from moca.engine.device import pick_device
from moca.engine.interrupt import Interrupt
from moca.engine.progress import ProgressBar
from moca.errors import Interrupted, MocaError
from moca.generator.training import Pair, Training, steps_of
from moca.locking import is_held, lock
from moca.state import torch_bytes

_FORMAT = 1
_EVERY = 60.0
"""Seconds of training that a crash may cost."""


def generator_of(
    dataset: Dataset,
    *,
    steps: int | None = None,
    data_dir: Path | str | None = None,
    device: str = "auto",
    progress: bool = False,
) -> Pair:
    """The generator of a data set's training images, trained if need be: as it is kept, unless `steps` asks for more.

    Training that was interrupted goes on where it was. Of colour images a GPU trains a wide one, which is used on a CPU
    as well once it is finished; a CPU by itself trains a narrow one.
    """
    if dataset.vectors:
        raise MocaError(f"'{dataset.name}' holds vectors; only of images can a generator make more")
    where = pick_device(device)
    narrow_one = place_of(dataset, data_dir)
    wide_one = wide_place(narrow_one)
    wide = dataset.shape[0] > 1 and (where.type == "cuda" or _finished(wide_one))
    path = wide_one if wide else narrow_one
    kept = _read(path)
    wanted = steps or (kept or {}).get("wanted") or steps_of(dataset.shape, wide)
    if kept is None or kept["state"]["done"] < wanted:
        with clear_failures(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
            with lock(path.with_suffix(".lock"), wait=False) as free:
                if not free:
                    raise MocaError(f"the generator of '{dataset.name}' is being trained by another process; wait")
                kept = _trained(dataset, path, wanted, where, wide, progress)
    pair = Pair(dataset.shape, len(dataset.classes), wide).to(where)
    pair.load_state_dict(kept["state"]["networks"][0])
    return pair.requires_grad_(False)


def place_of(dataset: Dataset, data_dir: Path | str | None = None) -> Path:
    """Where it is kept, if it is no wide one: decided by the training images and their classes, whoever learns from
    them."""
    digest = hashlib.blake2b(f"{_FORMAT} {dataset.shape} {len(dataset.classes)}".encode(), digest_size=16)
    for tensor in (dataset.train.labels, dataset.train.images.permute(0, 2, 3, 1)):
        digest.update(np.ascontiguousarray(tensor.numpy()).data)
    return Store(data_dir).directory / "generators" / f"{digest.hexdigest()}.pt"


def wide_place(path: Path) -> Path:
    """Where the wide one is kept."""
    return path.with_stem(f"{path.stem}-wide")


def remove_generator(name: str, store: Store) -> bool:
    """Remove what is kept of a stored set's generator, unless another set has the same training images; whether there
    was one."""
    try:
        path = place_of(load(name, data_dir=store.directory), store.directory)
    except MocaError:  # images that can no longer be read lead to none
        return False
    files = [*path.parent.glob(f"{path.stem}*")]  # wide or not, whole or not, and its lock
    if not files or any(place_of(other, store.directory) == path for other in _alike(name, store)):
        return False
    if any(is_held(file) for file in files if file.suffix == ".lock"):
        raise MocaError(f"the generator of '{name}' is being trained by another process; wait for it, or stop it")
    with clear_failures(path.parent):
        for file in files:
            file.unlink(missing_ok=True)
    return any(file.suffix == ".pt" for file in files)


def _alike(name: str, store: Store) -> Iterator[Dataset]:
    """Other stored sets with as many training images of the same shape."""
    info = store.info(name)
    for other in store:
        with suppress(MocaError):  # one that is damaged
            about = store.info(other)
            if other != name and (about.shape, about.train) == (info.shape, info.train):
                yield load(other, data_dir=store.directory)


def _trained(
    dataset: Dataset, path: Path, wanted: int, device: torch.device, wide: bool, progress: bool
) -> dict[str, Any]:
    """Train to so many steps, from where it is."""
    training = Training(dataset.train, len(dataset.classes), wanted, device, wide)
    if (kept := _read(path)) is not None:
        training.load_state_dict(kept["state"])
    saved = time.monotonic()
    with Interrupt() as interrupt, ProgressBar(wanted, f"generator of {dataset.name}", progress) as bar:
        bar(training.done, "")
        while training.done < wanted:
            training.step()
            bar(1, "")
            if interrupt.requested or time.monotonic() - saved > _EVERY:
                _write(path, training, wanted)
                saved = time.monotonic()
            if interrupt.requested:
                raise Interrupted(
                    f"the generator of '{dataset.name}' is kept after {training.done:,} of {wanted:,} steps; the same "
                    "command goes on"
                )
    return _write(path, training, wanted)


def _write(path: Path, training: Training, wanted: int) -> dict[str, Any]:
    """In one go, so that a crash never leaves half of it."""
    kept = {"wanted": wanted, "state": training.state_dict()}
    part = path.with_suffix(".part")
    part.write_bytes(torch_bytes(kept))
    part.replace(path)
    return kept


def _finished(path: Path) -> bool:
    kept = _read(path)
    return kept is not None and kept["state"]["done"] >= kept["wanted"]


def _read(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    try:
        # Not to a GPU: one without room for it is no damage, and Adam counts its steps on the CPU.
        kept: dict[str, Any] = torch.load(path, weights_only=True, map_location="cpu")
        kept["wanted"], kept["state"]["done"]
    except OSError as error:
        raise MocaError(f"{path} cannot be read ({error.strerror}); see to its permissions, or remove it") from None
    except Exception:  # whatever a file that is not whole makes of the reader
        raise MocaError(f"{path} is damaged; remove it, and the generator is trained anew") from None
    return kept
