"""Reservoir sampling: every sample ever offered is kept with the same probability."""

from typing import Any

import torch
from torch import Tensor

from moca.random import Random
from moca.state import Stateful


def _last_writers(number: Tensor, drawn: Tensor, place: Tensor, size: int) -> Tensor:
    """The slot of each sample; `size` for those dropped or overwritten within the batch."""
    slot = torch.where(number < size, number, drawn).clamp_max(size)
    overwritten = ((slot == slot.unsqueeze(1)) & (place > place.unsqueeze(1))).any(1)
    return slot.masked_fill(overwritten, size)


class Reservoir(Stateful):
    """Vitter's algorithm R for a whole batch at once: the slot of each offered sample, or `size` for those dropped.

    The same as offering the samples one by one: of several that fall on one slot, the last one stays.
    """

    def __init__(self, size: int, random: Random) -> None:
        self.size, self.random = size, random
        self.seen = torch.zeros((), dtype=torch.int64, device=random.count.device)

    def slots(self, offered: int) -> Tensor:
        """Where each of the next `offered` samples goes."""
        place = torch.arange(offered, device=self.seen.device)
        number = self.seen + place
        self.seen += offered
        return _last_writers(number, self.random.below(number + 1), place, self.size)

    def state(self) -> dict[str, Any]:
        """The count of samples offered and the random sequence."""
        return {"seen": self.seen, "random": self.random.state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from where `state` was taken."""
        self.seen.copy_(state["seen"])
        self.random.load_state_dict(state["random"])
