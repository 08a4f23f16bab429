"""BatchNorm over a pass that holds several batches, each normalised by its own statistics.

New and replayed samples then share every convolution, and the numbers are those of separate passes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn


class _Batches(NamedTuple):
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
    """`torch.nn.BatchNorm2d`, which in training obeys `batches_apart`. It counts no batches: nothing needs it."""

    num_batches_tracked: None

    def __init__(self, features: int) -> None:
        super().__init__(features)
        self.num_batches_tracked = None

    def forward(self, x: Tensor) -> Tensor:
        """The normalised input."""
        if _batches is None or not self.training:
            return super().forward(x)
        parts = x.split(_batches.sizes)
        normalised = [
            torch.native_batch_norm(part, self.weight, self.bias, None, None, True, 0.0, self.eps) for part in parts
        ]
        if _batches.updates:
            counts = [part.numel() // part.shape[1] for part in parts]
            self._track([(mean, inverse) for _, mean, inverse in normalised], counts, _batches.updates)
        return torch.cat([out for out, _, _ in normalised]) if len(parts) > 1 else normalised[0][0]

    @torch.no_grad()
    def _track(self, statistics: list[tuple[Tensor, Tensor]], counts: list[int], updates: tuple[int, ...]) -> None:
        """What the updates r <- (1 - m) r + m s, one after the other, come to in one go."""
        momentum = self.momentum or 0.0
        share = [0.0] * len(counts)
        for age, batch in enumerate(reversed(updates)):
            share[batch] += momentum * (1 - momentum) ** age
        running_mean, running_var = self.running_mean, self.running_var
        assert running_mean is not None
        assert running_var is not None
        keep = (1 - momentum) ** len(updates)
        mean, variance = keep * running_mean, keep * running_var
        for part, (batch_mean, inverse), count in zip(share, statistics, counts, strict=True):
            mean = mean + part * batch_mean
            variance = variance + part * count / max(count - 1, 1) * (inverse**-2 - self.eps)
        running_mean.copy_(mean)
        running_var.copy_(variance)
