"""Reservoir sampling: every sample ever offered is stored with the same probability."""

from __future__ import annotations

import torch
from torch import Tensor

from moca.memory.memory import Memory, Store


class Reservoir(Store):
    """Vitter's algorithm R, vectorised over a batch.

    Equivalent to offering the samples one by one: if several fall on one slot, the last one stays.
    """

    def slots(self, samples: dict[str, Tensor], memory: Memory) -> Tensor:
        """The slot for each sample; one that a later sample of the batch would overwrite is dropped."""
        offered = len(next(iter(samples.values())))
        place = torch.arange(offered, device=memory.count.device)
        number = memory.count + place
        drawn = self.random.below(number + 1)
        slot = torch.where(number < self.size, number, drawn).clamp_max(self.size)
        overwritten = ((slot == slot.unsqueeze(1)) & (place > place.unsqueeze(1))).any(1)
        return slot.masked_fill(overwritten, self.size)
