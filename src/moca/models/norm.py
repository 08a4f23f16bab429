"""BatchNorm over a pass that holds several batches, each normalised by its own statistics.

New and replayed samples then share every convolution, and the numbers are those of separate passes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from moca import kernels

_MOMENTUM = 0.1


class _Batches(NamedTuple):
    sizes: tuple[int, ...]
    """Rows of each batch, in the order in which they stand."""
    shares: Tensor | None
    """What the running statistics keep of themselves, and what they take from each batch; None where they stay."""


_batches: _Batches | None = None

Shares = dict[tuple[tuple[int, ...], int], Tensor]
"""What the caller of `batches_apart` keeps from one pass to the next."""


@contextmanager
def batches_apart(
    sizes: Sequence[int], updates: Sequence[int] | None, device: torch.device, kept: Shares | None = None
) -> Iterator[None]:
    """Inside, BatchNorm treats consecutive groups of rows as batches of their own.

    `updates` names the batches (by number) that move the running statistics, in order and as often as wanted; None
    means each of them once. What that takes on the device is made anew, or `kept` where the caller has a place for
    it: none can be made while a graph is recorded, and none may be shared by runs, which have a stream each.
    """
    global _batches
    order = tuple(range(len(sizes)) if updates is None else updates)
    kept, key = {} if kept is None else kept, (order, len(sizes))
    if order and key not in kept:
        kept[key] = _shares(order, len(sizes), device)
    before, _batches = _batches, _Batches(tuple(sizes), kept.get(key))
    try:
        yield
    finally:
        _batches = before


def _shares(updates: tuple[int, ...], count: int, device: torch.device) -> Tensor:
    """What the updates r <- (1 - m) r + m s, one after the other, come to in one go: the share that stays, and that of
    each batch."""
    shares = [(1 - _MOMENTUM) ** len(updates)] + [0.0] * count
    for age, batch in enumerate(reversed(updates)):
        shares[1 + batch] += _MOMENTUM * (1 - _MOMENTUM) ** age
    return torch.tensor(shares, device=device)


class BatchNorm2d(nn.BatchNorm2d):
    """`torch.nn.BatchNorm2d`, which in training obeys `batches_apart`; there it counts no batches, as nothing asks."""

    def forward(self, x: Tensor, residual: Tensor | None = None, relu: bool = False) -> Tensor:
        """The normalised input, then plus the residual, then through a ReLU where asked for."""
        if self.training and _batches is not None and len(_batches.sizes) <= kernels.MOST_BATCHES and kernels.usable(x):
            return self._in_kernels(x, _batches, residual, relu)
        y = super().forward(x) if _batches is None or not self.training else self._apart(x, _batches)
        y = y if residual is None else y + residual
        return F.relu(y) if relu else y

    def _in_kernels(self, x: Tensor, batches: _Batches, residual: Tensor | None, relu: bool) -> Tensor:
        from moca.kernels.batch_norm import Statistics, batch_norm

        assert self.running_mean is not None
        assert self.running_var is not None
        shares = batches.shares
        running = None if shares is None else Statistics(self.running_mean, self.running_var, shares)
        return batch_norm(x, self.weight, self.bias, batches.sizes, self.eps, running, residual, relu)

    def _apart(self, x: Tensor, batches: _Batches) -> Tensor:
        """What the kernels compute, in plain operations."""
        parts = x.split(batches.sizes)
        normalised = [
            torch.native_batch_norm(part, self.weight, self.bias, None, None, True, 0.0, self.eps) for part in parts
        ]
        if batches.shares is not None:
            counts = [part.numel() // part.shape[1] for part in parts]
            self._track([(mean, inverse) for _, mean, inverse in normalised], counts, batches.shares)
        return torch.cat([out for out, _, _ in normalised]) if len(parts) > 1 else normalised[0][0]

    @torch.no_grad()
    def _track(self, statistics: list[tuple[Tensor, Tensor]], counts: list[int], shares: Tensor) -> None:
        """Move the running statistics by those of each batch; the variance is the unbiased one."""
        running_mean, running_var = self.running_mean, self.running_var
        assert running_mean is not None
        assert running_var is not None
        keep, *takes = shares.unbind()
        mean, variance = keep * running_mean, keep * running_var
        for take, (batch_mean, inverse), count in zip(takes, statistics, counts, strict=True):
            mean = mean + take * batch_mean
            variance = variance + take * (count / max(count - 1, 1)) * (inverse**-2 - self.eps)
        running_mean.copy_(mean)
        running_var.copy_(variance)


def keep_batches_apart(module):
    return module
