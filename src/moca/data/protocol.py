"""Protocols: how the images of a data set are preprocessed, and how its classes are split into tasks."""

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
    """How the images of a data set are preprocessed, split into tasks and trained on by default."""

    mean: tuple[float, ...]
    """Mean of each channel, for pixel values from 0 to 1; subtracted from the pixels."""
    std: tuple[float, ...]
    """Standard deviation of each channel, by which the result is divided."""
    crop_padding: int = 0
    """Random crops of the original size, from the image padded by this many black pixels."""
    flip: bool = False
    """Random horizontal flips."""
    brightness: float = 0.0
    """Pixel values are multiplied by a random factor from 1 - brightness to 1 + brightness."""
    tasks: tuple[int, ...] = ()
    """Number of classes of each task; empty if the data set has no standard split."""
    class_order: str = "natural"
    """The order in which classes arrive: natural, or one of the data set's named orders."""
    name: str = "own"
    """Name of the protocol: offline, online, proxy, ...; `own` if the data set has no standard one."""
    image_size: int | None = None
    """Side in pixels to which large images of a folder were resized by default."""
    recipe: Mapping[str, Any] = field(default_factory=dict)
    """Default settings of a run, such as epochs and lr."""
    white: float = 255
    """The raw value that is scaled to 1: 255 for bytes, 1 for vectors."""

    @property
    def vectors(self) -> bool:
        """Whether samples are vectors instead of images."""
        return self.white == 1

    def tasks_for(self, classes: int) -> int | tuple[int, ...]:
        """The standard split if there is one, else five tasks, or fewer if a task would have a single class."""
        return self.tasks or max(1, min(5, classes // 2))


def setting_of(protocol: str) -> str:
    """The setting that a protocol is a variant of, by its name: proxy for proxy20, online for online_augmented."""
    return re.split(r"[0-9_]", protocol, maxsplit=1)[0]


def own_protocol(shape: tuple[int, int, int], mean: Sequence[float], std: Sequence[float]) -> Protocol:
    """The protocol of user data: its own statistics, crops shifted by up to an eighth, flips for colour images.

    The shape is height, width, channels.
    """
    side = min(shape[:2])
    nonzero_std = tuple(max(s, 1 / 255) for s in std)
    return Protocol(tuple(mean), nonzero_std, crop_padding=max(1, side // 8), flip=shape[2] == 3)


def vector_protocol(vectors: Tensor) -> Protocol:
    """The protocol of vectors (n, d, 1, 1): each feature is normalised by its own mean and standard deviation; constant
    features are divided by 1."""
    rows = vectors.flatten(1).double()
    mean, std = rows.mean(0), rows.std(0, correction=0)
    std = std.masked_fill(std <= 1e-6 * mean.abs(), 1)
    return Protocol(tuple(mean.tolist()), tuple(std.tolist()), white=1)


def deal(order: Sequence[int], tasks: int | Sequence[int], dataset: str) -> tuple[tuple[int, ...], ...]:
    """Split classes, in their order of arrival, into a number of tasks of nearly equal size, or into given sizes."""
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
