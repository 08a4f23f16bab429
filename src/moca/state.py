"""State: what an object must keep to go on exactly, in one place for checkpoints and for recorded graphs."""

import io
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from moca.errors import MocaError, nearest

Path = tuple[Any, ...]
"""Where a tensor is in a nested state."""


class Stateful:
    """Something with a state, which is a nested dictionary of tensors and plain values.

    A class names what it must keep in `remembers`; what its bases name is kept too.
    """

    remembers: ClassVar[tuple[str, ...]] = ()
    """Names of the attributes that it must keep: tensors (or None until there is one), modules, other objects with a
    state, plain values."""

    def state(self) -> dict[str, Any]:
        """The state itself: the tensors are those that the object goes on changing."""
        for name in self._remembered():
            if not hasattr(self, name):
                known = [other for other in vars(self) if not other.startswith("_")]
                raise MocaError(f"'{type(self).__name__}' remembers '{name}', but has none; {nearest(name, known)}")
        return {name: _state_of(getattr(self, name)) for name in self._remembered()}

    def state_dict(self) -> dict[str, Any]:
        """A copy of the state, to be saved or loaded later."""
        return deepcopy(self.state())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from where `state` was taken."""
        for name in self._remembered():
            held, kept = getattr(self, name), state[name]
            if isinstance(held, Stateful | nn.Module):
                held.load_state_dict(kept)
            elif isinstance(held, Tensor) and isinstance(kept, Tensor) and held.shape == kept.shape:
                with torch.no_grad():
                    held.copy_(kept)
            else:
                setattr(self, name, deepcopy(kept))

    @classmethod
    def _remembered(cls) -> list[str]:
        return list(dict.fromkeys(name for base in reversed(cls.__mro__) for name in vars(base).get("remembers", ())))


def torch_bytes(state: Any) -> memoryview:
    """As torch writes it. By way of memory: what torch itself raises where a disk is full does not say so."""
    content = io.BytesIO()
    torch.save(state, content)
    return content.getbuffer()


def _state_of(value: Any) -> Any:
    if isinstance(value, Stateful):
        return value.state()
    return dict(value.state_dict()) if isinstance(value, nn.Module) else value


def layout(state: Any) -> Any:
    """A nested state with the place of every tensor instead of its values: equal as long as none has moved and no plain
    value has changed. What is empty does not matter."""
    if isinstance(state, Tensor):
        return state.data_ptr(), state.shape, state.dtype
    if isinstance(state, dict):
        parts = {name: layout(part) for name, part in state.items()}
        return {name: part for name, part in parts.items() if part is not None} or None
    if isinstance(state, list | tuple):
        return [layout(part) for part in state] or None
    return state


def on(device: torch.device | str, state: Any) -> Any:
    """A nested state with every tensor on a device, wherever it was kept."""
    return changed(state, lambda path, tensor: tensor.to(device))


def longer(rows: Tensor, count: int, fill: float = 0) -> Tensor:
    """A row for each of `count` classes: the given ones, then rows of `fill`."""
    return torch.cat([rows, rows.new_full((count - len(rows), *rows.shape[1:]), fill)])


def tensors_in(state: Any) -> Iterator[Tensor]:
    """Every tensor of a nested state."""
    return (tensor for _, tensor in placed_tensors(state))


def placed_tensors(state: Any, path: Path = ()) -> Iterator[tuple[Path, Tensor]]:
    """Every tensor of a nested state with where it is."""
    if isinstance(state, Tensor):
        yield path, state
    for name, part in _parts(state):
        yield from placed_tensors(part, (*path, name))


def changed(state: Any, change: Callable[[Path, Tensor], Tensor], path: Path = ()) -> Any:
    """A nested state with what `change` makes of each tensor."""
    if isinstance(state, Tensor):
        return change(path, state)
    parts = {name: changed(part, change, (*path, name)) for name, part in _parts(state)}
    if isinstance(state, list | tuple):
        return type(state)(parts.values())
    return parts if isinstance(state, dict) else state


def _parts(state: Any) -> Iterator[tuple[Any, Any]]:
    """The parts of a nested state by name, or by place."""
    if isinstance(state, dict):
        yield from state.items()
    elif isinstance(state, list | tuple):
        yield from enumerate(state)
