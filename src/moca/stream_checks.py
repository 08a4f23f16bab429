"""What a stream must hold: one made by hand fails where it is made, not in the middle of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from moca.batch import in_short
from moca.data import Dataset, Split
from moca.errors import MocaError

if TYPE_CHECKING:
    from moca.streams import Stream, Task


def refuse_unfit(stream: Stream) -> None:
    """Raise a `MocaError` if the samples, the labels or the tasks of a stream cannot be used."""
    if not isinstance(stream.dataset, Dataset):
        raise MocaError(f"a stream is over a moca.Dataset, as moca.dataset gives, not a {_kind(stream.dataset)}")
    for name, split in (("train", stream.train), ("test", stream.test)):
        _refuse_unfit_split(name, split, stream)
    for number, task in enumerate(stream.tasks, 1):
        if not hasattr(task, "tested"):
            raise MocaError(f"task {number} of a stream is a moca.Task(classes, train, test), not a {_kind(task)}")
        _refuse_unfit_task(f"task {number}", task, stream)


def refuse_untested(stream: Stream) -> None:
    """Raise a `MocaError` if a run could not be evaluated on every task of the stream, or has no task at all."""
    if not stream.tasks:
        raise MocaError("data is a stream without a task; a run needs at least one")
    for number, task in enumerate(stream.tasks, 1):
        if not len(task.test):
            raise MocaError(f"task {number} of the stream has no test sample; give it some, or leave it out")


def _refuse_unfit_split(name: str, split: Split, stream: Stream) -> None:
    if not isinstance(split, Split):
        raise MocaError(f"{name} of a stream is a moca.data.Split(images, labels), not a {_kind(split)}")
    images, labels = split.images, split.labels
    if not isinstance(images, Tensor) or images.dim() != 4 or not (images.dtype == torch.uint8 or _vectors(images)):
        raise MocaError(
            f"images of {name} are bytes from 0 to 255, uint8 of (n, channels, height, width), not {_short(images)}; "
            "moca.dataset((images, labels)) makes them of floats too"
        )
    if (shape := tuple(images.shape[1:])) != stream.shape:
        raise MocaError(f"images of {name} are {shape}, and those of the stream's data set {stream.shape}; use one set")
    if not isinstance(labels, Tensor) or labels.dtype != torch.int64 or labels.shape != images.shape[:1]:
        raise MocaError(
            f"labels of {name} are class numbers, int64 of ({len(images)},), one for each image, not {_short(labels)}"
        )
    if span := _outside(labels, stream.classes):
        raise MocaError(
            f"labels of {name} are {span}, but must be positions in the {stream.classes} names; name every class"
        )


def _vectors(images: Tensor) -> bool:
    return images.is_floating_point() and images.shape[2:] == (1, 1)


def _refuse_unfit_task(where: str, task: Task, stream: Stream) -> None:
    for name, classes in (("classes", task.classes), ("tested", task.tested)):
        if not isinstance(classes, Sequence) or not all(c in range(stream.classes) for c in classes):
            raise MocaError(
                f"{name} of {where} are class numbers, positions in the {stream.classes} names, such as (0, 1), not "
                f"{classes}"
            )
    parts = (
        ("train", task.train, stream.train, task.classes),
        ("test", task.test, stream.test, task.tested),
        ("held", task.held, stream.train, task.classes),
    )
    for name, index, split, classes in parts:
        _refuse_unfit_index(f"{name} of {where}", index, len(split))
        of = torch.zeros(stream.classes, dtype=torch.bool)
        of[list(classes)] = True
        if not of[y := split.labels[index]].all():
            other = int(y[~of[y]][0])
            raise MocaError(f"{name} of {where} has samples of class {other}, but its classes are {classes}; add it")
    if not len(task.train):
        raise MocaError(f"{where} has no training sample; give it some, or leave it out")


def _refuse_unfit_index(name: str, index: Any, count: int) -> None:
    if isinstance(index, Tensor) and index.dtype == torch.bool:
        raise MocaError(f"{name} is a mask; give the indices: mask.nonzero().flatten()")
    if not isinstance(index, Tensor) or index.dtype != torch.int64 or index.dim() != 1:
        raise MocaError(f"{name} is a tensor of indices, int64 of (n,), not {_short(index)}")
    if span := _outside(index, count):
        raise MocaError(f"{name} has indices from {span}, but there are {count} samples, counted from 0")


def _outside(numbers: Tensor, count: int) -> str:
    """The lowest and the highest of the numbers if any is not from 0 to count - 1; else empty."""
    low, high = map(int, numbers.aminmax()) if len(numbers) else (0, 0)
    return f"{low} to {high}" if len(numbers) and (low < 0 or high >= count) else ""


def _kind(value: Any) -> str:
    return type(value).__name__


def _short(value: Any) -> str:
    return in_short(value) if isinstance(value, Tensor) else f"a {_kind(value)}"
