"""Balanced storing: every class has as even a share of the memory as its samples allow."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from moca.memory.memory import Memory, Store
from moca.random import Random


class Balanced(Store):
    """A reservoir of each class, of which all are as large as each other: a class with fewer samples has them all, and
    the others share what it leaves. So it is however many of a class come, and when.

    Every sample draws a ticket when it comes. Those of a class are ranked by their tickets, and of all classes the
    lowest ranks stay.
    """

    remembers = ("random", "tickets")

    def __init__(self, size: int, random: Random, learner: Any = None) -> None:
        super().__init__(size, random, learner)
        self.tickets = torch.zeros(size + 1, dtype=torch.float64, device=random.count.device)

    def slots(self, samples: dict[str, Tensor], memory: Memory) -> Tensor:
        """The free slots, in order, for those that stay: the empty ones, and those of samples that do not stay."""
        drawn = self.random.uniform(len(samples["y"]), dtype=torch.float64)
        tickets = torch.cat([self.tickets[: self.size], drawn])
        y = torch.cat([memory.fields["y"][: self.size], samples["y"]])
        empty = torch.cat([memory.empty, torch.zeros_like(drawn, dtype=torch.bool)])
        first = in_turn(y, tickets, empty).argsort()[: self.size]
        stays = torch.zeros_like(empty).index_fill(0, first, True) & ~empty
        free, taken = stays[: self.size].to(torch.uint8).argsort(stable=True), stays[self.size :]
        slot = torch.where(taken, free[(taken.cumsum(0) - 1).clamp_min(0)], self.size)
        self.tickets.index_copy_(0, slot, drawn)
        self.tickets[self.size :].zero_()  # of those that were dropped
        return slot

    def staying(self, size: int, memory: Memory) -> Tensor:
        """As even a share of each class as before, by the same tickets."""
        turns = in_turn(memory.fields["y"][: self.size], self.tickets[: self.size], memory.empty)
        return turns.argsort()[:size]

    def moved(self, rows: Tensor) -> None:
        """Tickets stay with their samples."""
        self.tickets = self.tickets[rows]

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from where `state` was taken; that of a reservoir, as runs have it, has no tickets yet."""
        tickets = self.random.uniform(self.size + 1, dtype=torch.float64)
        super().load_state_dict({"tickets": tickets} | state)


def in_turn(y: Tensor, tickets: Tensor, empty: Tensor) -> Tensor:
    """A number for each sample, the lower the earlier it comes where classes take turns and each begins with its lowest
    ticket: its rank in its class, and by its ticket within a round. Empty ones come last."""
    y = y.masked_fill(empty, -1)
    order = tickets.argsort()
    order = order[y[order].argsort(stable=True)]
    ranks = torch.arange(len(y), device=y.device) - torch.searchsorted(y[order], y[order])
    return (torch.zeros_like(ranks).index_copy(0, order, ranks) + tickets).masked_fill(empty, torch.inf)
