"""Uniform replay: every stored sample is equally likely, none is drawn twice in a batch."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from moca.batch import Batch
from moca.memory.memory import Draw, Memory
from moca.random import Random

_FEW = 4096
"""Up to this many slots, a random number is drawn for every slot; beyond, only for the drawn ones."""


class Uniform(Draw):
    """Draws without replacement from the eligible samples, and from the others if there are too few."""

    def eligible(self, memory: Memory) -> Tensor | None:
        """Which rows may be drawn; None means all that hold a sample."""
        return None

    def choose(self, count: int, memory: Memory, new: Batch | None = None) -> Tensor:
        """`count` distinct slots."""
        eligible = self.eligible(memory)
        if eligible is None and memory.size > _FEW:
            return distinct(count, memory.count.clamp_max(memory.size), self.random)
        ticket = self.random.uniform(memory.size, dtype=torch.float64)
        if eligible is not None:
            ticket = ticket - (~eligible).to(ticket.dtype)
        return ticket.masked_fill(memory.empty, -2).topk(count).indices


def distinct(count: int, below: Tensor, random: Random) -> Tensor:
    """`count` distinct numbers in {0, ..., below - 1}, every choice and order equally likely, in time independent of
    `below`.

    Floyd's algorithm, vectorised: the i-th number is drawn from {0, ..., below - count + i}; if it is taken, the last
    number of that range is used instead. It is taken if an earlier draw gave it, or if it is the last number of an
    earlier range whose draw was taken; chains of such draws are followed by pointer doubling.
    """
    place = torch.arange(count, device=below.device)
    last = below - count + place
    drawn = random.below(last + 1)
    taken = ((drawn == drawn.unsqueeze(1)) & (place < place.unsqueeze(1))).any(1)
    to = drawn - (below - count)
    to = torch.where((to >= 0) & (to < place), to, place)
    for _ in range(max(1, math.ceil(math.log2(max(count, 2))))):
        taken, to = taken | taken[to], to[to]
    return torch.where(taken, last, drawn)[random.permutation(count)]
