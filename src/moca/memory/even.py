"""Even replay: classes are replayed equally often, however many samples of each are stored."""

from __future__ import annotations

import torch
from torch import Tensor

from moca.batch import Batch
from moca.memory.memory import Draw, Memory


class Even(Draw):
    """Draws without replacement; all classes have the same probability, which the samples of a class share."""

    def choose(self, count: int, memory: Memory, new: Batch | None = None) -> Tensor:
        """`count` distinct slots, by a race of exponential clocks with rate one over the size of a sample's class."""
        y, held = memory.fields["y"][: memory.size], ~memory.empty
        of_class = torch.zeros(len(self.learner.came), dtype=torch.float64, device=y.device)
        of_class.index_add_(0, y, held.double())
        race = self.random.uniform(memory.size, dtype=torch.float64).log() * of_class[y]
        return race.masked_fill(~held, -torch.inf).topk(count).indices
