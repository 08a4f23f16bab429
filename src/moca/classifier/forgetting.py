"""Forgetting on request: remove a class from head, memory, prototypes and counters as if it had never come, or remove
stored samples whose labels were wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from moca.engine.learning import Learning
from moca.state import Path, changed, placed_tensors


def without(learning: Learning, number: int, again: Callable[[int, int], Learning]) -> Learning:
    """A copy of `learning` without class `number`; later classes move up by one. `again(classes, times)` makes an
    untrained one with the same settings, but `times` the memory size.

    Tensors with a row per class are found by growing a copy by one class, tensors with a row per memory slot by making
    a copy with more slots: the axes that become longer are the ones to cut.
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
    """A copy of `learning` without some stored samples: `gone(samples)` is the mask of those to remove."""
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
    """For each tensor, the axes along which it has become longer."""
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
    """The state without the samples in memory that are `gone`. The others move to the front, and counters are set as if
    only they had been offered. What store, draw or learner hold per slot moves along."""
    device = gone.device
    stay, others = torch.nonzero(~gone).flatten(), torch.nonzero(gone).flatten()
    order = torch.cat([stay, others, torch.arange(len(gone), size + 1, device=device)])
    empty = torch.arange(size + 1, device=device) >= len(stay)

    def moved(path: Path, rows: Tensor) -> Tensor:
        """Reorder the slots, and zero those that are now empty."""
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
