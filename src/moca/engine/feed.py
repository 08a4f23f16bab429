"""Training samples by index: from the device, or through pinned memory if the data set is too large for it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from moca.data import Split
from moca.engine.resident import resident

_AHEAD = 4
"""How many batches the host may be ahead of the copies to the device."""


@dataclass
class _Slot:
    """Pinned memory for a batch, and the event that marks the end of its last copy to the device."""

    images: Tensor
    copied: torch.cuda.Event


class Feed:
    """Provides the raw images and labels of a step. Images that do not fit on the device stay memory-mapped on the
    host."""

    def __init__(self, split: Split, device: torch.device, batch: int) -> None:
        self.images = resident(split.images, device)
        self.resident = self.images.device.type == device.type
        self.labels = split.labels.to(device)
        self.device = device
        self.slots = [] if self.resident else [_slot(split.images, batch) for _ in range(_AHEAD)]
        self.turn = 0

    @property
    def order_device(self) -> torch.device:
        """The device on which sample indices are needed."""
        return self.images.device

    def __call__(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Images and labels of the samples at `index`."""
        shape = (len(index), *self.images.shape[1:])
        images = torch.empty(shape, dtype=self.images.dtype, device=self.device)
        batch = images, self.labels.new_empty(len(index))
        self.fetch(index, *batch)
        return batch

    def fetch(self, index: Tensor, images: Tensor, labels: Tensor) -> None:
        """Copy the samples at `index` into these tensors, without waiting for the device."""
        torch.index_select(self.labels, 0, index.to(self.device, non_blocking=True), out=labels)
        if self.resident:
            torch.index_select(self.images, 0, index, out=images)
            return
        rows = len(self.slots[0].images)
        for some, place in zip(index.split(rows), images.split(rows), strict=True):
            slot = self.slots[self.turn]
            self.turn = (self.turn + 1) % len(self.slots)
            slot.copied.synchronize()
            pinned = slot.images[: len(some)]
            torch.index_select(self.images, 0, some, out=pinned)
            place.copy_(pinned, non_blocking=True)
            slot.copied.record(torch.cuda.current_stream(self.device))


def _slot(images: Tensor, batch: int) -> _Slot:
    return _Slot(torch.empty((batch, *images.shape[1:]), dtype=images.dtype, pin_memory=True), torch.cuda.Event())
