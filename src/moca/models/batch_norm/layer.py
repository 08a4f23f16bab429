"""BatchNorm for a pass with several batches, each normalised by its own statistics.

New and replayed samples can then share every convolution, with the same results as separate passes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from moca import kernels
from moca.models.batch_norm.batches import Batches, batches_for
from moca.models.batch_norm.weighted import weighted


class Running(NamedTuple):
    """Running statistics that a pass updates."""

    mean: Tensor
    var: Tensor
    momentum: float | None
    """None for the average over all batches so far."""
    counted: Tensor | None
    """The number of batches so far."""

    @classmethod
    def of(cls, layer: _BatchNorm, batches: Batches) -> Running | None:
        """The layer's running statistics, or None if this pass does not update them."""
        mean, var = layer.running_mean, layer.running_var
        if mean is None or var is None or not (layer.training and layer.track_running_stats and batches.updates):
            return None
        return cls(mean, var, layer.momentum, layer.num_batches_tracked)


class BatchNorm2d(nn.BatchNorm2d):
    """`torch.nn.BatchNorm2d` that obeys `batches_apart`; there it counts batches only if it averages over them.

    Extra channels, with which a `Convolution` pads its output, are zeros; they stay zero or are dropped.
    """

    def forward(self, x: Tensor, residual: Tensor | None = None, relu: bool = False) -> Tensor:
        """The normalised input, plus the residual if given, then through a ReLU if `relu`."""
        batches = batches_for(self)
        if batches is not None:
            return normalise(x, self.weight, self.bias, self.eps, batches, Running.of(self, batches), residual, relu)
        return _then(super().forward(x[:, : self.num_features]), residual, relu)


def _then(y: Tensor, residual: Tensor | None, relu: bool) -> Tensor:
    y = y if residual is None else y + residual[:, : y.shape[1]]
    return F.relu(y) if relu else y


def normalise(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    batches: Batches,
    running: Running | None,
    residual: Tensor | None = None,
    relu: bool = False,
) -> Tensor:
    """Normalise each batch by its own statistics, update the running ones, then add the residual and apply ReLU."""
    batches = batches.seen_in(x)
    averages = running is not None and running.momentum is None
    fits = x.dim() == 4 and len(batches.sizes) <= kernels.MOST_BATCHES and not averages
    if fits and weight is not None and bias is not None and kernels.usable(x):
        return _in_kernels(x, weight, bias, eps, batches, running, residual, relu)
    x = x if weight is None else x[:, : len(weight)]
    if batches.weights is None:
        return _then(_apart(x, weight, bias, eps, batches, running), residual, relu)
    return _then(weighted(x, weight, bias, eps, batches.weights), residual, relu)


def _in_kernels(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    eps: float,
    batches: Batches,
    running: Running | None,
    residual: Tensor | None,
    relu: bool,
) -> Tensor:
    from moca.kernels.batch_norm import Rows, Statistics, batch_norm

    moved = rows = None
    if running is not None:
        moved = Statistics(running.mean, running.var, _shares(running, batches))
    if batches.weights is not None and batches.heaviest is not None:
        rows = Rows(batches.weights, batches.heaviest)
    return batch_norm(x, weight, bias, batches.sizes, eps, moved, residual, relu, rows)


def _apart(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, batches: Batches, running: Running | None
) -> Tensor:
    """The same as the kernels, in plain PyTorch."""
    parts = x.split(batches.sizes)
    normalised = [torch.native_batch_norm(part, weight, bias, None, None, True, 0.0, eps) for part in parts]
    if running is not None:
        with torch.no_grad():
            counts = [part.numel() // part.shape[1] for part in parts]
            _track(running, [(mean, inverse**-2 - eps) for _, mean, inverse in normalised], counts, batches)
    return torch.cat([out for out, _, _ in normalised]) if len(parts) > 1 else normalised[0][0]


def _track(running: Running, moments: list[tuple[Tensor, Tensor]], counts: list[int], batches: Batches) -> None:
    """Update the running statistics with each batch's mean and variance; the running variance is unbiased."""
    keep, *takes = _shares(running, batches)
    running.mean.mul_(keep)
    running.var.mul_(keep)
    for take, (mean, variance), count in zip(takes, moments, counts, strict=True):
        unbiased = count / max(count - 1, 1)
        if isinstance(take, Tensor):
            running.mean.add_(take * mean)
            running.var.add_(unbiased * take * variance)
        elif take:
            running.mean.add_(mean, alpha=take)
            running.var.add_(variance, alpha=unbiased * take)
    if running.momentum is None and running.counted is not None:
        running.counted.add_(len(batches.updates))


def _shares(running: Running, batches: Batches) -> list[Any]:
    """The sequence of updates r <- (1 - m) r + m s combined into one: the share of r that remains, and the share of
    each batch. Plain numbers, or tensors if m is one over the number of batches so far."""
    updates, momentum, count = batches.updates, running.momentum, len(batches.sizes)
    if momentum is None and running.counted is not None:
        before = running.counted.to(running.mean.dtype)
        after = before + len(updates)
        return [before / after, *(updates.count(batch) / after for batch in range(count))]
    m = momentum or 0.0  # without a counter, torch does not update either
    shares = [(1 - m) ** len(updates)] + [0.0] * count
    for age, batch in enumerate(reversed(updates)):
        shares[1 + batch] += m * (1 - m) ** age
    return shares
