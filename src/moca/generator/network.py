"""The networks of a class-conditional variational autoencoder with a critic: residual, for images of any shape.

None has BatchNorm, so that each image depends only on its own latent vector and class, and the generator can be
inverted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrizations import spectral_norm
from torch.nn.utils.parametrize import is_parametrized

Shape = tuple[int, int, int]
"""Channels, height, width."""
_CLASS = 64
"""Size of a class embedding."""
_GROUPS = 8


class Plan(NamedTuple):
    """Sizes of the feature maps, which double from the smallest, of 4 to 7 pixels a side, to the image."""

    base: tuple[int, int]
    widths: tuple[int, ...]
    """Channels of the maps, from the smallest map to the image's size."""
    chunk: int
    """Latent dimensions per block of the generator."""

    @property
    def latents(self) -> int:
        """Latent dimensions in all."""
        return self.chunk * len(self.widths)

    @classmethod
    def of(cls, shape: Shape, wide: bool) -> Plan:
        """The plan for images of a shape: wide for a GPU, or narrow enough to train on a CPU in minutes."""
        channels, height, width = shape
        doublings = max(1, int(math.log2(max(min(height, width), 8) / 4)))
        last = 128 if wide else 32 if doublings == 1 else 16
        widths = tuple(min(256, last * 2**level) for level in reversed(range(doublings + 1)))
        base = math.ceil(height / 2**doublings), math.ceil(width / 2**doublings)
        return cls(base, widths, 32 if channels == 1 else 128)


class Generator(nn.Module):
    """G(z, y): images with values from -1 to 1 from latent vectors and classes. Each block gets its own part of z."""

    def __init__(self, shape: Shape, classes: int, wide: bool = False) -> None:
        super().__init__()
        self.shape, self.plan = shape, Plan.of(shape, wide)
        widths = self.plan.widths
        about = self.plan.chunk + _CLASS
        self.classes = nn.Embedding(classes, _CLASS)
        self.start = nn.Linear(about, widths[0] * math.prod(self.plan.base))
        self.blocks = nn.ModuleList(_Up(a, b, about) for a, b in pairwise(widths))
        self.norm, self.end = nn.GroupNorm(_GROUPS, widths[-1]), nn.Conv2d(widths[-1], shape[0], 3, padding=1)

    def forward(self, z: Tensor, y: Tensor) -> Tensor:
        """Images of the classes y."""
        embedded = self.classes(y)
        first, *others = (torch.cat([part, embedded], 1) for part in z.split(self.plan.chunk, 1))
        x = self.start(first).view(len(z), self.plan.widths[0], *self.plan.base)
        for block, about in zip(self.blocks, others, strict=True):
            x = block(x, about)
        x = self.end(F.relu(self.norm(x))).tanh()
        return _centre(x, self.shape)


class _Up(nn.Module):
    """A residual block that doubles the side; both norms are conditioned on the latent vector and the class."""

    def __init__(self, before: int, after: int, about: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(_ConditionalNorm(width, about) for width in (before, after))
        self.first, self.second = nn.Conv2d(before, after, 3, padding=1), nn.Conv2d(after, after, 3, padding=1)
        self.beside = nn.Conv2d(before, after, 1)

    def forward(self, x: Tensor, about: Tensor) -> Tensor:
        y = F.interpolate(self.first(F.relu(self.norms[0](x, about))), scale_factor=2.0)
        y = self.second(F.relu(self.norms[1](y, about)))
        made: Tensor = y + F.interpolate(self.beside(x), scale_factor=2.0)
        return made


class _ConditionalNorm(nn.Module):
    """A group norm whose scale and shift are computed from the latent vector and the class."""

    def __init__(self, width: int, about: int) -> None:
        super().__init__()
        self.norm, self.told = nn.GroupNorm(_GROUPS, width, affine=False), nn.Linear(about, 2 * width)

    def forward(self, x: Tensor, about: Tensor) -> Tensor:
        scale, shift = self.told(about)[:, :, None, None].chunk(2, 1)
        normed: Tensor = self.norm(x) * (1 + scale) + shift
        return normed


class Encoder(nn.Module):
    """E(x, y): the posterior over latent vectors of an image of class y, as the mean and log variance of a
    normal distribution."""

    def __init__(self, shape: Shape, classes: int, wide: bool = False) -> None:
        super().__init__()
        plan = Plan.of(shape, wide)
        self.body = _Body(shape[0], plan.widths[::-1], bounded=False)
        self.classes = nn.Embedding(classes, _CLASS)
        self.end = nn.Linear(plan.widths[0] * math.prod(plan.base) + _CLASS, 2 * plan.latents)

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log variance, one row per image."""
        mean, log_variance = self.end(torch.cat([self.body(x).flatten(1), self.classes(y)], 1)).chunk(2, 1)
        return mean, log_variance.clamp(-10, 5)


class Critic(nn.Module):
    """D(x, y): how real an image of class y looks; spectral normalisation keeps it smooth."""

    def __init__(self, shape: Shape, classes: int, wide: bool = False) -> None:
        super().__init__()
        widths = Plan.of(shape, wide).widths[::-1]
        self.body = _Body(shape[0], widths, bounded=True)
        self.real = spectral_norm(nn.Linear(widths[-1], 1))
        self.classes = spectral_norm(nn.Embedding(classes, widths[-1]))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """One score per image."""
        h = self.body(x).sum((2, 3))
        score: Tensor = self.real(h).squeeze(1) + (self.classes(y) * h).sum(1)
        return score

    def bound(self) -> None:
        """Compute all spectrally normalised weights, which `parametrize.cached` then caches."""
        for layer in self.modules():
            if is_parametrized(layer):
                layer.weight  # noqa: B018 - the access computes it


class _Body(nn.Module):
    """Images to feature maps of the smallest size."""

    def __init__(self, channels: int, widths: Sequence[int], bounded: bool) -> None:
        super().__init__()
        self.start = _conv(channels, widths[0], 3, bounded)
        self.blocks = nn.ModuleList(_Down(a, b, bounded) for a, b in pairwise(widths))

    def forward(self, x: Tensor) -> Tensor:
        x = self.start(x)
        for block in self.blocks:
            x = block(x)
        return F.relu(x)


class _Down(nn.Module):
    """A residual block that halves the side, with spectral normalisation if `bounded`, else with group norms."""

    def __init__(self, before: int, after: int, bounded: bool) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.Identity() if bounded else nn.GroupNorm(_GROUPS, before) for _ in range(2))
        self.first, self.second = _conv(before, before, 3, bounded), _conv(before, after, 3, bounded)
        self.beside = _conv(before, after, 1, bounded)

    def forward(self, x: Tensor) -> Tensor:
        y = F.avg_pool2d(self.first(F.relu(self.norms[0](x))), 2, ceil_mode=True)
        y = self.second(F.relu(self.norms[1](y)))
        halved: Tensor = y + self.beside(F.avg_pool2d(x, 2, ceil_mode=True))
        return halved


def _conv(before: int, after: int, side: int, bounded: bool) -> nn.Module:
    layer = nn.Conv2d(before, after, side, padding=side // 2)
    return spectral_norm(layer) if bounded else layer


def _centre(x: Tensor, shape: Shape) -> Tensor:
    """Centre-crop images that are a little too large."""
    top, left = (x.shape[2] - shape[1]) // 2, (x.shape[3] - shape[2]) // 2
    return x[:, :, top : top + shape[1], left : left + shape[2]]


def within_reach(z: Tensor) -> Tensor:
    """Shorten latent vectors to the length of random ones, beyond which the generator was never trained."""
    most = math.sqrt(z.shape[1])
    shortened: Tensor = z * (most / z.norm(dim=1, keepdim=True).clamp_min(most))
    return shortened
