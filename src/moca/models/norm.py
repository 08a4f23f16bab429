"""BatchNorm over a pass that holds several batches, each normalised by its own statistics.

New and replayed samples then share every convolution, and the numbers are those of separate passes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class _Batches:
    sizes: tuple[int, ...]
    """Rows of each batch, in the order in which they stand."""
    updates: tuple[int, ...]
    """Which batch's statistics move the running ones, one update after the other."""


_batches: _Batches | None = None


@contextmanager
def batches_apart(sizes: Sequence[int], updates: Sequence[int] | None = None) -> Iterator[None]:
    """Inside, BatchNorm treats consecutive groups of rows as batches of their own.

    `updates` names the batches (by number) that move the running statistics, in order and as often as wanted; by
    default each moves them once.
    """
    global _batches
    before, _batches = _batches, _Batches(tuple(sizes), tuple(range(len(sizes)) if updates is None else updates))
    try:
        yield
    finally:
        _batches = before


class BatchNorm2d(nn.BatchNorm2d):
    """`torch.nn.BatchNorm2d`, which in training obeys `batches_apart`."""

    def forward(self, x: Tensor) -> Tensor:
        """The normalised input."""
        if _batches is None or not self.training:
            return super().forward(x)
        outputs, means, variances = [], [], []
        for part in x.split(_batches.sizes):
            out, mean, inverse_std = torch.native_batch_norm(
                part, self.weight, self.bias, None, None, True, 0.0, self.eps
            )
            count = part.numel() / part.shape[1]
            outputs.append(out)
            means.append(mean)
            variances.append((inverse_std**-2 - self.eps) * (count / (count - 1)))
        self._track(torch.stack(means).detach(), torch.stack(variances).detach(), _batches.updates)
        return torch.cat(outputs)

    @torch.no_grad()
    def _track(self, means: Tensor, variances: Tensor, updates: tuple[int, ...]) -> None:
        """What the updates r <- (1 - m) r + m s, one after the other, come to in one go."""
        momentum = self.momentum or 0.0
        share = [0.0] * len(means)
        for age, batch in enumerate(reversed(updates)):
            share[batch] += momentum * (1 - momentum) ** age
        keep = (1 - momentum) ** len(updates)
        for running, statistics in ((self.running_mean, means), (self.running_var, variances)):
            assert running is not None
            running.mul_(keep)
            for part, statistic in zip(share, statistics.unbind(), strict=True):
                if part:
                    running.add_(statistic.to(running.dtype), alpha=part)
        if self.num_batches_tracked is not None:
            self.num_batches_tracked += len(updates)
