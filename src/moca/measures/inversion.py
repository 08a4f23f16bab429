"""Searches for the latent of a generator whose image has a given feature, for pictures of implicit augmentation."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from moca.generator.network import within_reach

_RATE = 0.05
_PIXELS = 1.0
"""Weight of the image's error relative to the feature's; both are relative errors."""


def invert(
    generate: Callable[[Tensor], Tensor],
    encode: Callable[[Tensor], Tensor],
    latents: Tensor,
    features: Tensor,
    images: Tensor | None = None,
    steps: int = 300,
    watch: Callable[[], None] = lambda: None,
) -> Tensor:
    """Starting from `latents`, find those whose images have features nearest to `features`.

    Minimises ||h(G(z)) - f||^2 / ||f||^2 and, with `images`, plus ||G(z) - x||^2 / ||x - mean(x)||^2. Each row is a
    separate search by Adam, whose learning rate falls to 0; the best point on the way is returned. `watch` is called
    after every step.
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
