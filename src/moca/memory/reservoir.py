"""Reservoir sampling: every sample ever offered is kept with the same probability."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from moca.memory.memory import Memory, Store
from moca.random import Random

if TYPE_CHECKING:
    from moca.learners.base import Learner


def _last_writers(number: Tensor, drawn: Tensor, place: Tensor, size: int) -> Tensor:
    """The slot of each sample; `size` for those dropped or overwritten within the batch."""
    slot = torch.where(number < size, number, drawn).clamp_max(size)
    overwritten = ((slot == slot.unsqueeze(1)) & (place > place.unsqueeze(1))).any(1)
    return slot.masked_fill(overwritten, size)


class Reservoir(Store):
    """Vitter's algorithm R for a whole batch at once: the slot of each offered sample, or `size` for those dropped.

    The same as offering the samples one by one: of several that fall on one slot, the last one stays.
    """

    remembers = ("seen", "random")

    def __init__(self, size: int, random: Random, learner: Learner | None = None) -> None:
        super().__init__(size, random, learner)
        self.seen = torch.zeros((), dtype=torch.int64, device=random.count.device)

    def slots(self, samples: dict[str, Tensor], memory: Memory) -> Tensor:
        """Where each of the samples goes."""
        offered = len(next(iter(samples.values())))
        place = torch.arange(offered, device=self.seen.device)
        number = self.seen + place
        self.seen += offered
        return _last_writers(number, self.random.below(number + 1), place, self.size)
