"""The generator of a data set: trained once, stored beside the data sets, and reused by every run."""

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
from moca.data.store_failures import failures_told
from moca.engine.device import pick_device
from moca.engine.interrupt import Interrupt
from moca.engine.progress import ProgressBar
from moca.errors import Interrupted, MocaError
from moca.generator.training import Pair, Training, steps_of
from moca.locking import is_held, lock
from moca.state import torch_bytes

_FORMAT = 1
_EVERY = 60.0
"""Seconds between checkpoints: how much training a crash may lose."""


def generator_of(
    dataset: Dataset,
    *,
    steps: int | None = None,
    data_dir: Path | str | None = None,
    device: str = "auto",
    progress: bool = False,
) -> Pair:
    """Load the generator of a data set's training images, training it first if it has fewer than `steps` steps.

    Interrupted training resumes. For colour images, a GPU trains a wide generator, which a CPU also uses once it is
    finished; otherwise a CPU trains a narrow one.
    """
    if dataset.vectors:
        raise MocaError(f"'{dataset.name}' holds vectors; a generator needs images")
    where = pick_device(device)
    narrow_path = place_of(dataset, data_dir)
    wide_path = wide_place(narrow_path)
    wide = dataset.shape[0] > 1 and (where.type == "cuda" or _finished(wide_path))
    path = wide_path if wide else narrow_path
    checkpoint = _read(path)
    wanted = steps or (checkpoint or {}).get("wanted") or steps_of(dataset.shape, wide)
    if checkpoint is None or checkpoint["state"]["done"] < wanted:
        with failures_told(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
            with lock(path.with_suffix(".lock"), wait=False) as free:
                if not free:
                    raise MocaError(f"the generator of '{dataset.name}' is being trained by another process; wait")
                checkpoint = _train(dataset, path, wanted, where, wide, progress)
    pair = Pair(dataset.shape, len(dataset.classes), wide).to(where)
    pair.load_state_dict(checkpoint["state"]["networks"][0])
    return pair.requires_grad_(False)


def place_of(dataset: Dataset, data_dir: Path | str | None = None) -> Path:
    """The path of a data set's narrow generator, named by a digest of the training images and labels."""
    digest = hashlib.blake2b(f"{_FORMAT} {dataset.shape} {len(dataset.classes)}".encode(), digest_size=16)
    for tensor in (dataset.train.labels, dataset.train.images.permute(0, 2, 3, 1)):
        digest.update(np.ascontiguousarray(tensor.numpy()).data)
    return Store(data_dir).directory / "generators" / f"{digest.hexdigest()}.pt"


def wide_place(path: Path) -> Path:
    """The path of the wide generator, given that of the narrow one."""
    return path.with_stem(f"{path.stem}-wide")


def remove_generator(name: str, store: Store) -> bool:
    """Delete the generators of a stored set, unless another set has the same training images; return whether there was
    one."""
    try:
        path = place_of(load(name, data_dir=store.directory), store.directory)
    except MocaError:  # without readable images the path cannot be computed
        return False
    files = [*path.parent.glob(f"{path.stem}*")]  # wide and narrow, partial files and locks
    if not files or any(place_of(other, store.directory) == path for other in _alike(name, store)):
        return False
    if any(is_held(file) for file in files if file.suffix == ".lock"):
        raise MocaError(f"the generator of '{name}' is being trained by another process; wait for it, or stop it")
    with failures_told(path.parent):
        for file in files:
            file.unlink(missing_ok=True)
    return any(file.suffix == ".pt" for file in files)


def _alike(name: str, store: Store) -> Iterator[Dataset]:
    """Other stored sets with the same image shape and the same number of training images per class."""
    info = store.info(name)
    for other in store:
        with suppress(MocaError):  # skip damaged sets
            about = store.info(other)
            if other != name and (about.shape, about.train) == (info.shape, info.train):
                yield load(other, data_dir=store.directory)


def _train(
    dataset: Dataset, path: Path, wanted: int, device: torch.device, wide: bool, progress: bool
) -> dict[str, Any]:
    """Train up to `wanted` steps, resuming from the checkpoint if there is one."""
    training = Training(dataset.train, len(dataset.classes), wanted, device, wide)
    if (checkpoint := _read(path)) is not None:
        training.load_state_dict(checkpoint["state"])
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
                    f"the generator of '{dataset.name}' is saved after {training.done:,} of {wanted:,} steps; the same "
                    "command resumes its training"
                )
    return _write(path, training, wanted)


def _write(path: Path, training: Training, wanted: int) -> dict[str, Any]:
    """Write a checkpoint atomically."""
    checkpoint = {"wanted": wanted, "state": training.state_dict()}
    part = path.with_suffix(".part")
    part.write_bytes(torch_bytes(checkpoint))
    part.replace(path)
    return checkpoint


def _finished(path: Path) -> bool:
    checkpoint = _read(path)
    return checkpoint is not None and checkpoint["state"]["done"] >= checkpoint["wanted"]


def _read(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    try:
        # Not to a GPU: one without enough memory must not look like damage, and Adam counts its steps on the CPU.
        checkpoint: dict[str, Any] = torch.load(path, weights_only=True, map_location="cpu")
        checkpoint["wanted"], checkpoint["state"]["done"]
    except OSError as error:
        raise MocaError(f"{path} cannot be read ({error.strerror}); check its permissions, or remove it") from None
    except Exception:  # a damaged file may fail in any way
        raise MocaError(f"{path} is damaged; remove it, and the generator is trained from scratch") from None
    return checkpoint
