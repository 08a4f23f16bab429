"""Uniform replay: every stored sample is equally likely, none is drawn twice in a batch."""

from typing import Any

import torch
from torch import Tensor

from moca.random import Random
from moca.state import Stateful


class Uniform(Stateful):
    """Draws slots without replacement: those of the largest random numbers."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def choose(self, count: int, stored: Tensor) -> Tensor:
        """`count` different slots among those where `stored` is true."""
        ticket = self.random.uniform(len(stored), dtype=torch.float64).masked_fill(~stored, -1)
        return ticket.topk(count).indices

    def state(self) -> dict[str, Any]:
        """The random sequence."""
        return {"random": self.random.state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from where `state` was taken."""
        self.random.load_state_dict(state["random"])
