"""How a data set is used: what the encoder sees, and how its classes are dealt into tasks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import index
from typing import TYPE_CHECKING, Any

from moca.errors import MocaError

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Protocol:
    """How the images of a data set are prepared for the encoder, dealt into tasks and trained on by default."""

    mean: tuple[float, ...]
    """Of each channel, for pixel values from 0 to 1; it is taken off."""
    std: tuple[float, ...]
    """The standard deviation of each channel, which what is left is divided by."""
    crop_padding: int = 0
    """Random crops of the original size from the image padded by this many black pixels."""
    flip: bool = False
    """Random horizontal flips."""
    brightness: float = 0.0
    """Pixel values times a random factor from 1 - brightness to 1 + brightness."""
    tasks: tuple[int, ...] = ()
    """Classes of each task; empty where the data set has no customary split."""
    class_order: str = "natural"
    """The order in which classes arrive: natural, or one of the data set's named orders."""
    name: str = "own"
    """What the protocol is called: offline, online, proxy, ...; own where the data set has no customary one."""
    image_size: int | None = None
    """Pixels a side that large images of a folder were brought to without being asked."""
    recipe: Mapping[str, Any] = field(default_factory=dict)
    """Settings of a run, such as epochs and lr, that are used where none are given."""
    white: float = 255
    """The value that stands for 1: of bytes 255; vectors are numbers already."""

    @property
    def vectors(self) -> bool:
        """Whether samples are vectors of numbers, not images."""
        return self.white == 1

    def tasks_for(self, classes: int) -> int | tuple[int, ...]:
        """The customary split or, where there is none, five tasks; fewer where a task would have a single class."""
        return self.tasks or max(1, min(5, classes // 2))


def setting_of(protocol: str) -> str:
    """The setting that a protocol is a form of, by its name: proxy20 is of proxy, online_augmented of online."""
    return re.split(r"[0-9_]", protocol, maxsplit=1)[0]


def own_protocol(shape: tuple[int, int, int], mean: Sequence[float], std: Sequence[float]) -> Protocol:
    """For a set without a paper: its own statistics, crops shifted by up to an eighth, flips where there is colour.

    The shape is height, width, channels.
    """
    side = min(shape[:2])
    spread = tuple(max(s, 1 / 255) for s in std)
    return Protocol(tuple(mean), spread, crop_padding=max(1, side // 8), flip=shape[2] == 3)


def vector_protocol(vectors: Tensor) -> Protocol:
    """For vectors (n, d, 1, 1): each of the d numbers by its own mean and spread; those that never change by 1."""
    rows = vectors.flatten(1).double()
    mean, std = rows.mean(0), rows.std(0, correction=0)
    std = std.masked_fill(std <= 1e-6 * mean.abs(), 1)
    return Protocol(tuple(mean.tolist()), tuple(std.tolist()), white=1)


def deal(order: Sequence[int], tasks: int | Sequence[int], dataset: str) -> tuple[tuple[int, ...], ...]:
    """Classes, in their order of arrival, in so many tasks of equal size (as nearly as can be), or of these sizes."""
    try:
        sizes = tuple(map(index, tasks)) if isinstance(tasks, Iterable) else _equal(len(order), index(tasks), dataset)
    except TypeError:
        raise MocaError(
            f"tasks = {tasks!r}: must be their number, or the number of classes of each, such as [4, 3, 3]; which "
            "classes these are is said by their order"
        ) from None
    if sum(sizes) > len(order) or min(sizes, default=0) < 1:
        raise MocaError(f"'{dataset}' has {len(order)} classes, which tasks of {', '.join(map(str, sizes))} do not fit")
    return tuple(tuple(order[end - size : end]) for size, end in zip(sizes, accumulate(sizes), strict=True))


def _equal(count: int, tasks: int, dataset: str) -> tuple[int, ...]:
    if tasks < 1:
        raise MocaError(f"there must be at least 1 task (there are {tasks})")
    if tasks > count:
        raise MocaError(f"'{dataset}' has {count} classes, too few for {tasks} tasks; use tasks <= {count}")
    each, more = divmod(count, tasks)
    return tuple(each + (i < more) for i in range(tasks))
