"""GSS: gradient-based sample selection, greedy; the memory keeps samples whose gradients differ in direction.

Paper: Aljundi, Lin, Goujaud, Bengio, NeurIPS 2019, arXiv 1903.08671.
"""

from typing import Any

import torch
from torch import Tensor

from moca.learners.er import ER
from moca.memory import Memory, Store
from moca.models.gradient_products import gradient_products
from moca.parts import option
from moca.random import Random

_FIRST = 0.1
"""The score of samples that come when there is nothing to compare them with."""


class Diverse(Store):
    """Scores say how alike a sample's gradient is to those of others, from 0 (opposed) to 2 (the same).

    A full memory takes in samples only of a batch whose gradient points away from all that it is compared with. Each
    then competes with one stored sample, which is the more likely to be met and to give way the higher its score.
    """

    remembers = ("random", "scores")

    def __init__(self, size: int, random: Random, learner: Any = None) -> None:
        super().__init__(size, random, learner)
        self.scores = torch.zeros(size + 1, device=random.count.device)

    def slots(self, samples: dict[str, Tensor], memory: Memory) -> Tensor:
        """The next ones while there is room; then the slot that each wins, if it does."""
        alike, each = self._likeness(samples, memory)
        number = memory.count + torch.arange(len(each), device=each.device)
        # Different slots, each as likely to come next as its score says: the first ones of a race.
        race = self.random.uniform(self.size, dtype=torch.float64).log() / self.scores[:-1]
        rivals = race.masked_fill(memory.empty, -torch.inf).topk(min(len(each), self.size)).indices
        met = torch.full_like(number, self.size)
        met[: len(rivals)] = rivals
        rival = self.scores[met]
        wins = self.random.uniform(len(each)) * (rival + each) < rival
        won = torch.where(wins & (alike < 1) & (met < memory.count), met, self.size)
        slot = torch.where(number < self.size, number, won)
        self.scores.index_copy_(0, slot, torch.where(number < self.size, alike, each))
        self.scores[-1:].zero_()  # of those that were dropped
        return slot

    def moved(self, rows: Tensor) -> None:
        """Scores stay with their samples."""
        self.scores = self.scores[rows]

    @torch.no_grad()
    def _likeness(self, samples: dict[str, Tensor], memory: Memory) -> tuple[Tensor, Tensor]:
        """1 + the largest cosine to the gradients of random stored samples: of the whole batch, and of each sample."""
        ticket = self.random.uniform(self.size, dtype=torch.float64).masked_fill(memory.empty, -1)
        chosen = ticket.topk(min(self.learner.comparisons, self.size)).indices
        x, y = (torch.cat([samples[name], memory.fields[name][chosen]]) for name in ("image", "y"))
        products, count = gradient_products(self.learner.model, self.learner.view(x), y), len(samples["y"])
        squares, dots, among = products.diagonal(), products[:count, count:], products[:count, :count]
        # The batch's gradient is the mean of its samples'; its length does not matter.
        dots = torch.cat([dots.sum(0, keepdim=True), dots])
        own = torch.cat([among.sum().clamp_min(0).view(1), squares[:count]]).sqrt()
        lengths = squares[count:].sqrt()
        cosines = dots / (own.unsqueeze(1) * lengths).clamp_min(1e-30)
        nearest = cosines.masked_fill(memory.empty[chosen], -torch.inf).amax(1)
        alike = torch.where(memory.count > 0, 1 + nearest, _FIRST)
        return alike[0], alike[1:]


class GSS(ER):
    """Experience replay in one pass and one mean over new and replayed samples, from a memory of diverse gradients."""

    passes = "concatenated"
    comparisons: int = option(32, "n, random stored samples whose gradients new ones are compared with", ge=1)

    store = Diverse
    recipes = {"offline": {"lr": 0.03}}
