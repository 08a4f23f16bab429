"""Even replay: classes are replayed equally often, however many samples of each are stored."""

from __future__ import annotations

import torch
from torch import Tensor

from moca.batch import Batch
from moca.memory.memory import Draw, Memory


class Even(Draw):
    """Draws without replacement; the samples of a class share its chance to come next, which is that of any other
    class."""

    remembers = ("random",)

    def choose(self, count: int, memory: Memory, new: Batch | None = None) -> Tensor:
        """`count` different slots: the first ones of a race in which a sample is the slower the more of its class there
        are."""
        y, held = memory.fields["y"][: memory.size], ~memory.empty
        of_class = torch.zeros(len(self.learner.came), dtype=torch.float64, device=y.device)
        of_class.index_add_(0, y, held.double())
        race = self.random.uniform(memory.size, dtype=torch.float64).log() * of_class[y]
        return race.masked_fill(~held, -torch.inf).topk(count).indices
