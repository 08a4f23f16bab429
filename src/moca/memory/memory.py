"""The replay memory: tensors on the device, with one policy for storing and one for drawing."""

from typing import Any, Protocol

import torch
from torch import Tensor

from moca.errors import MocaError
from moca.state import Stateful

_AT_ONCE = 1024
"""Samples that are offered in one go: stores may compare each with each."""


class Store(Protocol):
    """Decides which slot each offered sample takes; `size` means none."""

    def slots(self, offered: int) -> Tensor: ...  # noqa: D102
    def state(self) -> dict[str, Any]: ...  # noqa: D102
    def load_state_dict(self, state: dict[str, Any]) -> None: ...  # noqa: D102


class Draw(Protocol):
    """Decides which stored samples are replayed."""

    def choose(self, count: int, stored: Tensor) -> Tensor: ...  # noqa: D102
    def state(self) -> dict[str, Any]: ...  # noqa: D102
    def load_state_dict(self, state: dict[str, Any]) -> None: ...  # noqa: D102


class Memory(Stateful):
    """At most `size` samples, each a row of every field: raw image, label, and logits where they are kept.

    One more row takes what the store drops, so that a step has the same shapes whatever is kept.
    """

    def __init__(self, size: int, store: Store, draw: Draw) -> None:
        if size < 1:
            raise MocaError(f"a memory needs at least 1 slot (it has {size})")
        self.size, self.storing, self.drawing = size, store, draw
        self.fields: dict[str, Tensor] = {}
        self.filled = torch.zeros(0, dtype=torch.bool)
        """Which rows hold a sample, the spare one included."""
        self.offered = 0
        """Samples offered so far, known without asking the device."""

    def __len__(self) -> int:
        return min(self.size, self.offered)

    def add(self, **samples: Tensor) -> None:
        """Offer a batch, one tensor a field; the first call fixes the fields."""
        parts = [values.split(_AT_ONCE) for values in samples.values()]
        for part in zip(*parts, strict=True):
            self._add(dict(zip(samples, part, strict=True)))

    def _add(self, samples: dict[str, Tensor]) -> None:
        count = len(next(iter(samples.values())))
        if not self.fields:
            self.fields = {k: v.new_zeros(self.size + 1, *v.shape[1:]) for k, v in samples.items()}
            self.filled = torch.zeros(self.size + 1, dtype=torch.bool, device=next(iter(samples.values())).device)
        slot = self.storing.slots(count)
        self.filled.index_fill_(0, slot, True)
        for name, values in samples.items():
            self.fields[name].index_copy_(0, slot, values)
        self.offered += count

    def draw(self, count: int) -> dict[str, Tensor]:
        """`count` stored samples, or all of them if there are fewer, one tensor a field."""
        index = self.drawing.choose(min(count, len(self)), self.filled[: self.size])
        return {name: values[index] for name, values in self.fields.items()}

    def all(self) -> dict[str, Tensor]:
        """Everything stored, one tensor a field."""
        return {name: values[: len(self)] for name, values in self.fields.items()}

    def state(self) -> dict[str, Any]:
        """Contents, counters and random sequences."""
        return {
            "fields": self.fields,
            "filled": self.filled,
            "offered": self.offered,
            "store": self.storing.state(),
            "draw": self.drawing.state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from where `state` was taken."""
        self.fields = {k: v.clone() for k, v in state["fields"].items()}
        self.filled, self.offered = state["filled"].clone(), state["offered"]
        self.storing.load_state_dict(state["store"])
        self.drawing.load_state_dict(state["draw"])
