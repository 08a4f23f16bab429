"""Fetching, cropping, flipping and normalising a batch in one gather, on whatever device the images are."""

from typing import Self

import torch
from torch import Tensor

from moca.data.dataset import Protocol
from moca.fusion import fused
from moca.random import Random


class Transform:
    """Raw bytes to what the encoder sees: augmented if wanted, and normalised."""

    def __init__(self, protocol: Protocol, random: Random, augment: bool = True) -> None:
        device = random.count.device
        std = torch.tensor(protocol.std, device=device)
        self.scale, self.shift = 1 / (255 * std), -torch.tensor(protocol.mean, device=device) / std
        self.padding, self.flip = (protocol.crop_padding, protocol.flip) if augment else (0, False)
        self.brightness = protocol.brightness if augment else 0.0
        self.random = random

    @classmethod
    def plain(cls, protocol: Protocol, device: torch.device) -> Self:
        """Normalisation only, as for test images."""
        return cls(protocol, Random(0, "unused", device), augment=False)

    def __call__(self, images: Tensor) -> Tensor:
        """Every image transformed on its own; float32, channels last in memory."""
        if self.padding or self.flip:
            draw = self.random.uniform(3, len(images), 1)
            x = _crop_flip_normalise(images, draw, self.padding, self.flip, self.scale, self.shift)
        else:
            x = _normalise(images.permute(0, 2, 3, 1), self.scale, self.shift)
        return self._brightened(x) if self.brightness else x

    def _brightened(self, x: Tensor) -> Tensor:
        """Each image's pixels times a random factor, at most white."""
        factor = 1 + self.brightness * (2 * self.random.uniform(len(x), 1, 1, 1) - 1)
        black, white = self.shift.view(-1, 1, 1), 255 * self.scale.view(-1, 1, 1)
        return torch.minimum((x - black) * factor, white) + black


@fused
def _crop_flip_normalise(
    images: Tensor, draw: Tensor, padding: int, flip: bool, scale: Tensor, shift: Tensor
) -> Tensor:
    """Each image moved by a random offset, black beyond its border, and mirrored or not."""
    n, _, height, width = images.shape
    offset = (draw[:2] * (2 * padding + 1)).long() - padding
    rows = torch.arange(height, device=images.device) + offset[0]
    columns = torch.arange(width, device=images.device) + offset[1]
    if flip:
        columns = torch.where(draw[2] < 0.5, columns.flip(1), columns)
    inside = _inside(rows, height).unsqueeze(2) & _inside(columns, width).unsqueeze(1)
    rows, columns = rows.clamp(0, height - 1).unsqueeze(2), columns.clamp(0, width - 1).unsqueeze(1)
    sample = torch.arange(n, device=images.device).view(n, 1, 1)
    return _normalise(images[sample, :, rows, columns] * inside.unsqueeze(3), scale, shift)


def _normalise(pixels: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """From (n, height, width, channels) in bytes to (n, channels, height, width) in units of the data set's spread."""
    return (pixels.float() * scale + shift).permute(0, 3, 1, 2)


def _inside(index: Tensor, size: int) -> Tensor:
    return (index >= 0) & (index < size)
