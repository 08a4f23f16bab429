"""Which rows of a forward pass form a batch, for every BatchNorm layer in that pass."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple

from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from moca.errors import MocaError


class Batches(NamedTuple):
    """The consecutive batches of a pass."""

    sizes: tuple[int, ...]
    """The number of rows of each batch."""
    updates: tuple[int, ...] = ()
    """The indices of the batches that update the running statistics, in order."""
    weights: Tensor | None = None
    """For a single batch, the weight of each row in the statistics; None if all rows count the same."""
    heaviest: Tensor | None = None
    """With weights, the index of a row with the largest weight."""

    def seen_in(self, x: Tensor) -> Batches:
        """The batches as a layer with input x sees them: x may have several rows for each row of the pass, if the
        encoder cuts images into parts."""
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


class _Now(threading.local):
    """The batches of the pass that a thread is in; several threads may train."""

    def __init__(self) -> None:  # in every thread; a default in the class is what torch.compile up to 2.11 would see
        self.batches: Batches | None = None


_now = _Now()


def batches_apart(sizes: Sequence[int], updates: Sequence[int] | None = None) -> AbstractContextManager[None]:
    """Inside, BatchNorm treats consecutive groups of rows, of these sizes, as separate batches.

    `updates` lists the indices of the batches that update the running statistics, in order, with repetitions allowed;
    None means each once.
    """
    return _in_force(Batches(tuple(sizes), tuple(range(len(sizes)) if updates is None else updates)))


def rows_weighted(weights: Tensor) -> AbstractContextManager[None]:
    """Inside, BatchNorm treats all rows as one batch with weighted statistics; the weights sum to 1.

    Rows of weight 0 are ignored: they affect neither statistics nor gradients, and their output is zero, so that it
    stays finite for any input. The running statistics are not updated.
    """
    return _in_force(Batches((len(weights),), (), weights, weights.argmax()))


@contextmanager
def _in_force(batches: Batches) -> Iterator[None]:
    before, _now.batches = _now.batches, batches
    try:
        yield
    finally:
        _now.batches = before


def batches_for(layer: _BatchNorm) -> Batches | None:
    """The batches that the layer must keep apart; None outside `batches_apart` and `rows_weighted`, or if it normalises
    by its running statistics."""
    return _now.batches if layer.training or layer.running_mean is None else None
