"""A data set in memory: images as raw bytes, with what is known about how to use them."""

from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass(frozen=True)
class Protocol:
    """How the images of a data set are prepared for the encoder, and the encoder it is used with by default."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    crop_padding: int = 0
    """Random crops of the original size from the image padded by this many black pixels."""
    flip: bool = False
    """Random horizontal flips."""
    model: str = "resnet18"


@dataclass(frozen=True)
class Split:
    """Images (n, channels, height, width) as uint8, and their classes."""

    images: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class Dataset:
    """Training and test images of named classes."""

    name: str
    train: Split
    test: Split
    classes: tuple[str, ...]
    protocol: Protocol = field(repr=False)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height, width."""
        channels, height, width = self.train.images.shape[1:]
        return channels, height, width


def channel_statistics(images: Tensor) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel, for pixel values from 0 to 1."""
    values = images.to(torch.float64) / 255
    return tuple(values.mean((0, 2, 3)).tolist()), tuple(values.std((0, 2, 3), correction=0).tolist())
