"""Crop, flip and normalise a whole batch at once, on the device of the images."""

from typing import Self

import torch
from torch import Tensor

from moca import kernels
from moca.data.protocol import Protocol
from moca.random import Random


class Transform:
    """Turns raw bytes into the encoder's input: augmented if `augment`, and normalised."""

    def __init__(self, protocol: Protocol, random: Random, augment: bool = True) -> None:
        device = random.count.device
        std = torch.tensor(protocol.std, device=device)
        self.scale, self.shift = 1 / (protocol.white * std), -torch.tensor(protocol.mean, device=device) / std
        self.padding, self.flip = (protocol.crop_padding, protocol.flip) if augment else (0, False)
        self.brightness = protocol.brightness if augment else 0.0
        self.random = random

    @classmethod
    def plain(cls, protocol: Protocol, device: torch.device) -> Self:
        """Normalisation only, as for test images."""
        return cls(protocol, Random(0, "unused", device), augment=False)

    def __call__(self, images: Tensor) -> Tensor:
        """Transform each image with its own random draws; float32, in channels-last memory format."""
        place = light = None
        if self.padding or self.flip:
            place = self.random.uniform(3, len(images), 1)
        if self.brightness:
            light = 1 + self.brightness * (2 * self.random.uniform(len(images), 1, 1, 1) - 1)
        elif place is not None and kernels.usable(images):
            from moca.kernels.transform import transform

            return transform(images, place, self.padding, self.flip, self.scale, self.shift)
        return _transform(images, place, light, self.padding, self.flip, self.scale, self.shift)


def _transform(
    images: Tensor, place: Tensor | None, light: Tensor | None, padding: int, flip: bool, scale: Tensor, shift: Tensor
) -> Tensor:
    """Shift, flip, brighten and normalise images; `place` holds uniform draws for row, column and flip."""
    pixels = images.permute(0, 2, 3, 1).float() if place is None else _crop_and_flip(images, place, padding, flip)
    if light is not None:
        pixels = (pixels * light).clamp(max=255)
    return (pixels * scale + shift).permute(0, 3, 1, 2)


def _crop_and_flip(images: Tensor, place: Tensor, padding: int, flip: bool) -> Tensor:
    """Shifted and flipped pixels as (n, height, width, channels); those beyond the border are black."""
    n, _, height, width = images.shape
    offset = (place[:2] * (2 * padding + 1)).long() - padding
    rows = torch.arange(height, device=images.device) + offset[0]
    columns = torch.arange(width, device=images.device) + offset[1]
    if flip:
        columns = torch.where(place[2] < 0.5, columns.flip(1), columns)
    inside = _inside(rows, height).unsqueeze(2) & _inside(columns, width).unsqueeze(1)
    rows, columns = rows.clamp(0, height - 1).unsqueeze(2), columns.clamp(0, width - 1).unsqueeze(1)
    sample = torch.arange(n, device=images.device).view(n, 1, 1)
    return images[sample, :, rows, columns] * inside.unsqueeze(3).float()


def _inside(index: Tensor, size: int) -> Tensor:
    return (index >= 0) & (index < size)
