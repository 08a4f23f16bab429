"""Balanced storing: every class gets as even a share of the memory as its samples allow."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from moca.memory.memory import Memory, Store
from moca.random import Random


class Balanced(Store):
    """One reservoir per class, all of equal size, for classes of any frequency in any order.

    A class with fewer samples than its share keeps them all, and the others share the slots it leaves. Every sample
    draws a random ticket when it arrives. Samples are ranked by ticket within their class, and the lowest ranks over
    all classes are kept.
    """

    remembers = ("tickets",)

    def __init__(self, size: int, random: Random, learner: Any = None) -> None:
        super().__init__(size, random, learner)
        self.tickets = torch.zeros(size + 1, dtype=torch.float64, device=random.count.device)

    def slots(self, samples: dict[str, Tensor], memory: Memory) -> Tensor:
        """The slot of each sample, `size` if dropped. Kept samples fill the free slots in order: the empty ones, and
        those of stored samples that are evicted."""
        drawn = self.random.uniform(len(samples["y"]), dtype=torch.float64)
        tickets = torch.cat([self.tickets[: self.size], drawn])
        y = torch.cat([memory.fields["y"][: self.size], samples["y"]])
        empty = torch.cat([memory.empty, torch.zeros_like(drawn, dtype=torch.bool)])
        first = in_turn(y, tickets, empty).argsort()[: self.size]
        stays = torch.zeros_like(empty).index_fill(0, first, True) & ~empty
        free, taken = stays[: self.size].to(torch.uint8).argsort(stable=True), stays[self.size :]
        slot = torch.where(taken, free[(taken.cumsum(0) - 1).clamp_min(0)], self.size)
        self.tickets.index_copy_(0, slot, drawn)
        self.tickets[self.size :].zero_()  # the spare row, where dropped samples write theirs
        return slot

    def staying(self, size: int, memory: Memory) -> Tensor:
        """The samples to keep, balanced over classes by the same tickets."""
        turns = in_turn(memory.fields["y"][: self.size], self.tickets[: self.size], memory.empty)
        return turns.argsort()[:size]

    def moved(self, rows: Tensor) -> None:
        """Move the tickets along with their samples."""
        self.tickets = self.tickets[rows]

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state; that of a plain reservoir, which runs use, has no tickets, so new ones are drawn."""
        tickets = self.random.uniform(self.size + 1, dtype=torch.float64)
        super().load_state_dict({"tickets": tickets} | state)


def in_turn(y: Tensor, tickets: Tensor, empty: Tensor) -> Tensor:
    """A sort key for each sample, by which the classes take turns, each starting with its lowest ticket.

    The key is the sample's rank within its class plus its ticket, a number in (0, 1). Empty slots come last.
    """
    y = y.masked_fill(empty, -1)
    order = tickets.argsort()
    order = order[y[order].argsort(stable=True)]
    ranks = torch.arange(len(y), device=y.device) - torch.searchsorted(y[order], y[order])
    return (torch.zeros_like(ranks).index_copy(0, order, ranks) + tickets).masked_fill(empty, torch.inf)
