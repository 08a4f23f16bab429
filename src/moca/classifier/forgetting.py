"""A class is forgotten on request: gone from head, memory, prototypes and counters, as if it had never come."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from moca.engine.learning import Learning


def without(learning: Learning, number: int, again: Callable[[int], Learning]) -> Learning:
    """Learning like this one, but for the class of that number; those behind it move up. `again(classes)` makes fresh
    learning with the same settings.

    Which tensors have a row a class is seen by letting a copy grow: those that become longer.
    """
    probe = again(learning.classes)
    probe.load_state_dict(learning.state_dict())
    before = {path: tensor.shape for path, tensor in _tensors(probe.state())}
    probe.grow(learning.classes + 1)
    grown = {path: tensor.shape for path, tensor in _tensors(probe.state())}
    by_class = {
        path: axis
        for path, shape in before.items()
        for axis, (was, now) in enumerate(zip(shape, grown.get(path, shape), strict=False))
        if now > was
    }
    state = _cut(learning.state_dict(), by_class, number, learning.classes)
    state["classes"] = learning.classes - 1
    made = again(learning.classes - 1)
    state["optimiser"] = made.optimiser.state_dict()
    if learning.memory is not None and state["memory"]["fields"]:
        _drop(state, number, learning.memory.size, {path[-1] for path in by_class})
    made.load_state_dict(state)
    if made.held is not None:
        made.held.forget(number)
    return made


def _tensors(state: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Tensor]]:
    """Every tensor of a nested state with where it is."""
    if isinstance(state, Tensor):
        yield path, state
    elif isinstance(state, dict):
        for name, part in state.items():
            yield from _tensors(part, (*path, name))


def _cut(
    state: Any, by_class: dict[tuple[Any, ...], int], number: int, classes: int, path: tuple[Any, ...] = ()
) -> Any:
    """The state without the rows of a class."""
    if isinstance(state, Tensor) and path in by_class:
        axis = by_class[path]
        each = state.shape[axis] // classes
        rows = [row for row in range(state.shape[axis]) if row // each != number]
        return state.index_select(axis, torch.tensor(rows, device=state.device))
    if isinstance(state, dict):
        return {name: _cut(part, by_class, number, classes, (*path, name)) for name, part in state.items()}
    return state


def _drop(state: dict[str, Any], number: int, size: int, by_class: set[str]) -> None:
    """The memory without the samples of a class: those that stay come first, and it is as if only they had come. What
    store, draw or learner know of each slot moves along."""
    memory, learner = state["memory"], state["learner"]
    held = min(size, memory["offered"])
    y = memory["fields"]["y"][:held]
    stay = torch.nonzero(y != number).flatten()
    gone = torch.nonzero(y == number).flatten()
    order = torch.cat([stay, gone, torch.arange(held, size + 1, device=y.device)])
    empty = torch.arange(size + 1, device=y.device) >= len(stay)
    memory["fields"] = {name: _moved(rows, order, empty) for name, rows in memory["fields"].items()}
    y = memory["fields"]["y"]
    y[y > number] -= 1
    memory["offered"] = len(stay)
    memory["count"].fill_(len(stay))
    for part in (memory["storing"] or {}, memory["drawing"], learner, learner.get("inner", {})):
        for name, rows in part.items():
            if name not in by_class and isinstance(rows, Tensor) and rows.dim() and len(rows) in (size, size + 1):
                part[name] = _moved(rows, order[: len(rows)], empty[: len(rows)])


def _moved(rows: Tensor, order: Tensor, empty: Tensor) -> Tensor:
    """The rows in another order, those that hold nothing any more zero."""
    moved = rows[order]
    moved[empty] = 0
    return moved
