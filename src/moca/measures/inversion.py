"""Which input of a generator has a wanted feature: the search behind pictures of implicit augmentation."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from moca.generator.network import within_reach

_RATE = 0.05
_PIXELS = 1.0
"""Weight of the image beside the feature, both relative to what is wanted."""


def invert(
    generate: Callable[[Tensor], Tensor],
    encode: Callable[[Tensor], Tensor],
    latents: Tensor,
    features: Tensor,
    images: Tensor | None = None,
    steps: int = 300,
    watch: Callable[[], None] = lambda: None,
) -> Tensor:
    """From `latents`, those whose images come nearest to the wanted features: argmin ||h(G(z)) - f||^2 / ||f||^2 and,
    where an image is wanted as well, plus ||G(z) - x||^2 over x's own spread.

    A row is a search of its own, by Adam with a rate that falls to 0; the best point on its way counts. `watch` is
    called after every step.
    """
    z = latents.detach().clone().requires_grad_()
    optimiser = torch.optim.Adam([z], _RATE)
    best, least = latents.detach().clone(), torch.full((len(z),), math.inf, device=z.device)
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = _RATE * (1 + math.cos(math.pi * step / steps)) / 2
        at = within_reach(z)
        made = generate(at)
        loss = _relative(encode(made), features)
        if images is not None:
            wanted = images.flatten(1)
            centre = wanted.mean(1, keepdim=True)
            loss = loss + _PIXELS * _relative(made.flatten(1) - centre, wanted - centre)
        better = loss.detach() < least
        least, best = torch.where(better, loss.detach(), least), torch.where(better[:, None], at.detach(), best)
        (z.grad,) = torch.autograd.grad(loss.sum(), z)
        optimiser.step()
        watch()
    return best


def _relative(found: Tensor, wanted: Tensor) -> Tensor:
    return (found - wanted).square().sum(1) / wanted.square().sum(1).clamp_min(1e-12)
