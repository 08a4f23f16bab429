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
"""The score of samples that arrive while the memory is empty, with nothing to compare them with."""


class Diverse(Store):
    """Stores samples with diverse gradients.

    A sample's score is the similarity of its gradient to those of others, from 0 (opposite) to 2 (the same).

    A full memory accepts samples only from a batch whose gradient has a negative cosine to all those it is compared
    with. Each sample then competes with one stored sample; the higher the score of a stored sample, the more likely it
    is to be picked as a rival and to be replaced.
    """

    remembers = ("scores",)

    def __init__(self, size: int, random: Random, learner: Any = None) -> None:
        super().__init__(size, random, learner)
        self.scores = torch.zeros(size + 1, device=random.count.device)

    def slots(self, samples: dict[str, Tensor], memory: Memory) -> Tensor:
        """The slot of each sample: the next free one, or in a full memory the one it wins; `size` drops the sample."""
        batch_score, scores = self._similarity(samples, memory)
        number = memory.count + torch.arange(len(scores), device=scores.device)
        # Rivals: distinct slots, drawn without replacement with probabilities proportional to their scores.
        race = self.random.uniform(self.size, dtype=torch.float64).log() / self.scores[:-1]
        drawn = race.masked_fill(memory.empty, -torch.inf).topk(min(len(scores), self.size)).indices
        rivals = torch.full_like(number, self.size)
        rivals[: len(drawn)] = drawn
        rival_scores = self.scores[rivals]
        wins = self.random.uniform(len(scores)) * (rival_scores + scores) < rival_scores
        won = torch.where(wins & (batch_score < 1) & (rivals < memory.count), rivals, self.size)
        slot = torch.where(number < self.size, number, won)
        self.scores.index_copy_(0, slot, torch.where(number < self.size, batch_score, scores))
        self.scores[-1:].zero_()  # the spare row, to which dropped samples are written
        return slot

    def moved(self, rows: Tensor) -> None:
        """Reorder the scores as the memory reorders its samples."""
        self.scores = self.scores[rows]

    @torch.no_grad()
    def _similarity(self, samples: dict[str, Tensor], memory: Memory) -> tuple[Tensor, Tensor]:
        """Scores of the batch and of each sample: 1 + the largest cosine to the gradients of random stored samples."""
        ticket = self.random.uniform(self.size, dtype=torch.float64).masked_fill(memory.empty, -1)
        chosen = ticket.topk(min(self.learner.comparisons, self.size)).indices
        x, y = (torch.cat([samples[name], memory.fields[name][chosen]]) for name in ("image", "y"))
        products, count = gradient_products(self.learner.model, self.learner.view(x), y), len(samples["y"])
        squares, dots, within = products.diagonal(), products[:count, count:], products[:count, :count]
        # Row 0 is the batch. Its gradient is the mean of its samples'; the sum will do, as its length does not matter.
        dots = torch.cat([dots.sum(0, keepdim=True), dots])
        norms = torch.cat([within.sum().clamp_min(0).view(1), squares[:count]]).sqrt()
        stored_norms = squares[count:].sqrt()
        cosines = dots / (norms.unsqueeze(1) * stored_norms).clamp_min(1e-30)
        largest = cosines.masked_fill(memory.empty[chosen], -torch.inf).amax(1)
        scores = torch.where(memory.count > 0, 1 + largest, _FIRST)
        return scores[0], scores[1:]


class GSS(ER):
    """ER with one pass and one mean over new and replayed samples, from a memory of samples with diverse gradients."""

    passes = "concatenated"
    comparisons: int = option(32, "n, random stored samples to whose gradients new ones are compared", ge=1)

    store = Diverse
    recipes = {"offline": {"lr": 0.03}}
