"""Which rows of a pass make up a batch, for every BatchNorm that the pass goes through."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from moca.errors import MocaError


class Batches(NamedTuple):
    """The batches that a pass holds, one after the other."""

    sizes: tuple[int, ...]
    """Rows of each."""
    updates: tuple[int, ...] = ()
    """Those that move the running statistics, by number and in order."""
    weights: Tensor | None = None
    """The share of each row in the statistics, where there is one batch and rows differ; None where they do not."""
    heaviest: Tensor | None = None
    """With weights, the number of a row that has the largest."""

    def seen_in(self, x: Tensor) -> Batches:
        """The same for a layer that sees x, which may have several rows for each of the pass: images cut up."""
        rows, parts = sum(self.sizes), len(x) // sum(self.sizes)
        if parts * rows != len(x) or not parts:
            raise MocaError(
                f"the encoder's BatchNorm cannot keep batches apart: {len(x)} rows come to it, no multiple of {rows}"
            )
        if parts == 1:
            return self
        sizes = tuple(parts * size for size in self.sizes)
        if self.weights is None or self.heaviest is None:
            return Batches(sizes, self.updates)
        return Batches(sizes, self.updates, self.weights.repeat_interleave(parts) / parts, self.heaviest * parts)


_batches: Batches | None = None


@contextmanager
def batches_apart(sizes: Sequence[int], updates: Sequence[int] | None = None) -> Iterator[None]:
    """Inside, BatchNorm treats consecutive groups of rows as batches of their own.

    `updates` names the batches (by number) that move the running statistics, in order and as often as wanted; None
    means each of them once.
    """
    with _told(Batches(tuple(sizes), tuple(range(len(sizes)) if updates is None else updates))):
        yield


@contextmanager
def rows_weighted(weights: Tensor) -> Iterator[None]:
    """Inside, BatchNorm treats all rows as one batch in which each counts as much as its weight; they sum to 1.

    Rows of weight 0 are left out: they change neither statistics nor gradients, and come out as zeros, so that they
    stay finite whatever the others are. The running statistics stay as they are.
    """
    with _told(Batches((len(weights),), (), weights, weights.argmax())):
        yield


@contextmanager
def _told(batches: Batches) -> Iterator[None]:
    global _batches
    before, _batches = _batches, batches
    try:
        yield
    finally:
        _batches = before


def told(layer: _BatchNorm) -> Batches | None:
    """What the layer has to obey: nothing outside of such a pass, or where it uses its running statistics."""
    return _batches if layer.training or layer.running_mean is None else None
