"""A class is forgotten on request: gone from head, memory, prototypes and counters, as if it had never come. Or some of
the samples that were kept, as their labels were wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from moca.engine.learning import Learning
from moca.state import Path, changed, placed_tensors


def without(learning: Learning, number: int, again: Callable[[int, int], Learning]) -> Learning:
    """Learning like this one, but for the class of that number; those behind it move up. `again(classes, times)` makes
    fresh learning with so many times the memory, and otherwise the same settings.

    Which tensors have a row a class is seen by letting a copy grow, and which have a row a slot of the memory by making
    one with more slots: those that become longer.
    """
    classes, probe = learning.classes, again(learning.classes, 1)
    fresh = _shapes(probe)
    probe.load_state_dict(learning.state_dict())
    before = _shapes(probe)
    probe.grow(classes + 1)
    by_class = _longer(before, _shapes(probe))
    state = changed(learning.state_dict(), lambda path, rows: _cut(rows, by_class.get(path, ()), number, classes))
    state["classes"] = classes - 1
    made = again(classes - 1, 1)
    state["optimiser"] = made.optimiser.state_dict()
    if learning.memory is not None and state["memory"]["fields"]:
        by_slot = _longer(fresh, _shapes(again(classes, 2)))
        y = learning.memory.all()["y"]
        state = _drop(state, y == number, learning.memory.size, by_slot)
        y = state["memory"]["fields"]["y"]
        y[y > number] -= 1
    made.load_state_dict(state)
    if made.held is not None:
        made.held.forget(number)
    return made


def without_samples(
    learning: Learning, gone: Callable[[Tensor], Tensor], again: Callable[[int, int], Learning]
) -> Learning:
    """Learning like this one that no longer keeps some samples: `gone` says which of those given are to go."""
    memory, state, made = learning.memory, learning.state_dict(), again(learning.classes, 1)
    if memory is not None and len(memory) and (wrong := gone(memory.all()["image"])).any():
        by_slot = _longer(_shapes(made), _shapes(again(learning.classes, 2)))
        state = _drop(state, wrong, memory.size, by_slot)
    made.load_state_dict(state)
    if made.held is not None and made.held.images is not None:
        made.held.drop(gone(made.held.images))
    return made


def _shapes(learning: Learning) -> dict[Path, torch.Size]:
    return {path: tensor.shape for path, tensor in placed_tensors(learning.state())}


def _longer(before: dict[Path, torch.Size], after: dict[Path, torch.Size]) -> dict[Path, list[int]]:
    """The axes along which tensors have become longer."""
    return {
        path: [axis for axis, (was, now) in enumerate(zip(shape, after.get(path, shape), strict=False)) if now > was]
        for path, shape in before.items()
    }


def _cut(rows: Tensor, axes: Sequence[int], number: int, classes: int) -> Tensor:
    """The tensor without the rows of a class."""
    for axis in axes:
        each = rows.shape[axis] // classes
        stay = [row for row in range(rows.shape[axis]) if row // each != number]
        rows = rows.index_select(axis, torch.tensor(stay, device=rows.device))
    return rows


def _drop(state: dict[str, Any], gone: Tensor, size: int, by_slot: dict[Path, list[int]]) -> dict[str, Any]:
    """The state with a memory without some of the samples that it holds: those that stay come first, and it is as if
    only they had come. What store, draw or learner know of each slot moves along."""
    device = gone.device
    stay, others = torch.nonzero(~gone).flatten(), torch.nonzero(gone).flatten()
    order = torch.cat([stay, others, torch.arange(len(gone), size + 1, device=device)])
    empty = torch.arange(size + 1, device=device) >= len(stay)

    def moved(path: Path, rows: Tensor) -> Tensor:
        """In the new order, those that hold nothing any more zero."""
        if path[:2] != ("memory", "fields") and 0 not in by_slot.get(path, ()):
            return rows
        rows = rows[order[: len(rows)]]
        rows[empty[: len(rows)]] = 0
        return rows

    state = changed(state, moved)
    memory = state["memory"]
    memory["offered"] = len(stay)
    memory["count"].fill_(len(stay))
    return state
