"""A data set in memory: images as raw bytes, with the protocols that say how to use them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from torch import Tensor

from moca.data.moments import Moments
from moca.data.protocol import Protocol
from moca.errors import MocaError, nearest
from moca.wording import counted

if TYPE_CHECKING:
    from moca.models.frozen import Frozen

_AT_ONCE = 100
"""Images that are counted together: few enough to stay in the CPU cache."""


@dataclass(frozen=True, repr=False)
class Split:
    """Images (n, channels, height, width) as uint8, or float vectors (n, d, 1, 1), with their labels."""

    images: Tensor
    """All samples."""
    labels: Tensor
    """The class number of each sample."""

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        return f"Split of {len(self)} images, {_by(self.images)}"


@dataclass(frozen=True, repr=False)
class Dataset:
    """Training and test images with class names and protocols; made by `load` and `dataset`."""

    name: str
    """Name of the data set."""
    train: Split
    """Training images."""
    test: Split
    """Test images."""
    classes: tuple[str, ...]
    """Class names, by class number."""
    protocol: Protocol
    """How images are preprocessed, split into tasks and trained on by default."""
    protocols: Mapping[str, Protocol] = field(default_factory=dict)
    """All protocols of this data set by name: offline, online, proxy, ..."""
    orders: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Named class orders: the class that arrives first, second, ..."""
    fingerprint: str = ""
    """Fingerprint of all images and labels, for stored sets and for arrays given in Python; empty otherwise."""
    notes: tuple[str, ...] = ()
    """What a user should know about the images: some skipped, split off, or duplicated under different labels."""
    frozen: Frozen | None = None
    """The frozen encoder that computed these feature vectors from images, if there was one."""

    def __repr__(self) -> str:
        classes = counted(len(self.classes), "class", "classes")
        return (
            f"Dataset '{self.name}': {len(self.train)} training and {len(self.test)} test "
            f"{'vectors' if self.vectors else 'images'} of {classes}, {_by(self.train.images)}"
        )

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height, width."""
        channels, height, width = self.train.images.shape[1:]
        return channels, height, width

    @property
    def vectors(self) -> bool:
        """Whether its samples are vectors instead of images."""
        return self.train.images.is_floating_point()

    def using(self, protocol: str) -> Dataset:
        """The same images with another protocol of the data set."""
        if protocol not in self.protocols:
            others = (
                nearest(protocol, self.protocols)
                if self.protocols
                else "it has only a recipe, which applies by itself; leave out protocol= (one pass a task is epochs=1, "
                "prototypes in place of a memory are learner=pass)"
            )
            raise MocaError(f"'{self.name}' has no protocol '{protocol}'; {others}")
        return replace(self, protocol=self.protocols[protocol])

    def order(self, name: str) -> tuple[int, ...]:
        """The class numbers in a named order of arrival."""
        if name == "natural":
            return tuple(range(len(self.classes)))
        if name not in self.orders:
            known = nearest(name, [*self.orders, "natural", "random"])
            raise MocaError(f"'{self.name}' has no class order '{name}'; {known} (or class numbers)")
        return self.orders[name]


def _by(images: Tensor) -> str:
    return "x".join(map(str, images.shape[1:]))


def channel_statistics(images: Tensor) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel, for pixel values from 0 to 1."""
    moments = Moments(images.shape[1])
    for some in images.split(_AT_ONCE):
        moments.add(some.permute(0, 2, 3, 1).numpy())
    return moments.mean_and_std()
