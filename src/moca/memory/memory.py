"""The replay memory: tensors on the device, with a policy for storing and a policy for drawing."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from moca.batch import Batch, in_short
from moca.errors import MocaError
from moca.random import Random
from moca.state import Stateful, longer

_SLOTS = "slots"
"""The key of a packed state for the number of slots."""
_AT_ONCE = 1024
"""Most samples offered to the store at once, since stores may compare them pairwise."""


class Store(Stateful):
    """Decides which slot each offered sample takes. While there is room, all samples are stored, in consecutive
    slots."""

    remembers: ClassVar[tuple[str, ...]] = ("random",)

    def __init__(self, size: int, random: Random, learner: Any = None) -> None:
        self.size, self.random, self.learner = size, random, learner

    def slots(self, samples: dict[str, Tensor], memory: Memory) -> Tensor:
        """The slot for each of these samples, given as one tensor per field; `size` for dropped ones."""
        raise NotImplementedError

    def staying(self, size: int, memory: Memory) -> Tensor:
        """Slots of the `size` samples to keep when the memory shrinks: random, so all samples stay equally likely."""
        return memory.by_chance(size)

    def moved(self, rows: Tensor) -> None:
        """Called when only these rows of the memory are left, in this order, to reorder any per-row state."""


class Draw(Stateful):
    """Decides which stored samples are replayed."""

    remembers: ClassVar[tuple[str, ...]] = ("random",)

    def __init__(self, random: Random, learner: Any = None) -> None:
        self.random, self.learner = random, learner

    def choose(self, count: int, memory: Memory, new: Batch | None) -> Tensor:
        """`count` slots to replay together with the new batch."""
        raise NotImplementedError


class Memory(Stateful):
    """The replay memory: at most `size` samples, each a row of every field: raw image, label, and whatever else is
    stored.

    A spare row takes the samples that the store drops, so that the shapes of a step do not depend on what is stored.

    Args:
        size: The number of slots.
        store: Decides which offered samples to store; None if they are written with `rewrite`.
        draw: Decides which samples to replay.

    Example:
        >>> from moca.memory import Reservoir, Uniform
        >>> from moca.random import Random
        >>> memory = moca.Memory(100, Reservoir(100, Random(0, "store")), Uniform(Random(0, "draw")))
        >>> memory.add(x=torch.rand(32, 3, 8, 8), y=torch.arange(32))
        >>> memory.draw(16)["y"].shape
        torch.Size([16])
    """

    remembers = ("fields", "count", "offered", "storing", "drawing")

    def __init__(self, size: int, store: Store | None, draw: Draw) -> None:
        if size < 1:
            raise MocaError(f"a memory needs at least 1 slot (it has {size})")
        self.storing, self.drawing = store, draw
        self.fields: dict[str, Tensor] = {}
        self.count = torch.zeros((), dtype=torch.int64, device=draw.random.count.device)
        """Samples offered so far, on the device: that many rows are filled, from the first on, until all are."""
        self._resize(size)
        self.offered = 0
        """The same number on the host, so that reading it needs no sync."""

    def _resize(self, size: int) -> None:
        self.size, self._places = size, torch.arange(size, device=self.count.device)
        if self.storing is not None:
            self.storing.size = size

    def __len__(self) -> int:
        return min(self.size, self.offered)

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}: {in_short(values[: len(self)])}" for name, values in self.fields.items())
        return f"Memory of {len(self)} samples in {self.size} slots" + (f"; {fields}" if fields else "")

    @property
    def empty(self) -> Tensor:
        """A mask on the device of the slots that hold no sample yet; these are always the last ones."""
        return self._places >= self.count

    def add(self, **samples: Tensor) -> None:
        """Offer a batch, one tensor per field; the first call fixes the fields."""
        parts = [values.split(_AT_ONCE) for values in samples.values()]
        for part in zip(*parts, strict=True):
            self._add(dict(zip(samples, part, strict=True)))

    def _add(self, samples: dict[str, Tensor]) -> None:
        assert self.storing is not None
        self._make_room(samples)
        slot = self.storing.slots(samples, self)
        for name, values in samples.items():
            self.fields[name].index_copy_(0, slot, values)
        offered = len(next(iter(samples.values())))
        self.offered += offered
        self.count.add_(offered)

    def rewrite(self, **samples: Tensor) -> None:
        """Replace the contents by exactly these samples, at most one per slot: for learners that fill the memory
        themselves."""
        if self.storing is not None:
            raise ValueError("a memory that a store fills cannot be rewritten; the learner's `store` must be None")
        self._make_room(samples)
        self.offered = len(next(iter(samples.values())))
        if self.offered > self.size:
            raise ValueError(f"{self.offered} samples do not fit {self.size} slots")
        for name, values in samples.items():
            self.fields[name][: len(values)] = values
        self.count.fill_(self.offered)

    def _make_room(self, samples: dict[str, Tensor]) -> None:
        if not self.fields:
            self.fields = {k: v.new_zeros(self.size + 1, *v.shape[1:]) for k, v in samples.items()}

    def draw(self, count: int, new: Batch | None = None) -> dict[str, Tensor]:
        """Draw `count` stored samples, or all if there are fewer: one tensor per field, and their slots."""
        index = self.drawing.choose(min(count, len(self)), self, new)
        return {name: values[index] for name, values in self.fields.items()} | {"slot": index}

    def all(self) -> dict[str, Tensor]:
        """Everything stored, one tensor per field."""
        return {name: values[: len(self)] for name, values in self.fields.items()}

    def shrink(self, size: int) -> None:
        """Reduce the memory to `size` slots; the store, if any, decides which samples are kept."""
        if size >= self.size:
            return
        rows = torch.arange(self.size + 1, device=self.count.device)
        if (held := len(self)) > size:
            stay = self.by_chance(size) if self.storing is None else self.storing.staying(size, self)
            rows = torch.cat([stay, rows[held:]])
        rows = rows[: size + 1]
        self.fields = {name: values[rows] for name, values in self.fields.items()}
        if self.storing is not None:
            self.storing.moved(rows)
        self._resize(size)

    def by_chance(self, count: int) -> Tensor:
        """The slots of `count` samples chosen at random."""
        return self.drawing.random.permutation(len(self))[:count]

    def state(self) -> dict[str, Any]:
        """The state, with the spare row cleared: on a GPU, which dropped sample ends up there is not deterministic."""
        for values in self.fields.values():
            values[self.size].zero_()
        return super().state()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state, `packed` or not, with the number of slots it had."""
        if (slots := state.get(_SLOTS)) is not None:
            fields = {name: longer(values, slots + 1) for name, values in state["fields"].items()}
            state = {name: value for name, value in state.items() if name != _SLOTS} | {"fields": fields}
        super().load_state_dict(state)
        if self.fields:
            self._resize(len(next(iter(self.fields.values()))) - 1)

    def grow(self, classes: int) -> None:
        """Extend stored logits to more classes; samples already stored get zeros for the new ones."""
        if (logits := self.fields.get("logits")) is not None:
            more = logits.new_zeros(len(logits), classes - logits.shape[1])
            self.fields["logits"] = torch.cat([logits, more], 1)


def packed(state: dict[str, Any]) -> dict[str, Any]:
    """The state of a memory without its empty slots, for a file: an almost empty memory of large images stays small."""
    if not state["fields"]:
        return state
    slots = len(next(iter(state["fields"].values()))) - 1
    filled = min(slots, state["offered"])
    return state | {_SLOTS: slots, "fields": {name: rows[:filled].clone() for name, rows in state["fields"].items()}}
