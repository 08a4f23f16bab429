"""State: what an object needs to resume exactly; used for checkpoints and for recorded CUDA graphs."""

import io
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from moca.errors import MocaError, closest

Path = tuple[Any, ...]
"""The keys and indices that lead to a tensor in a nested state."""


class Stateful:
    """An object whose state is a nested dictionary of tensors and plain values.

    A class lists its stateful attributes in `remembers`; those listed by its base classes are included.
    """

    remembers: ClassVar[tuple[str, ...]] = ()
    """Names of the attributes that make up the state: tensors (or None until there is one), modules, other `Stateful`
    objects, plain values."""

    def state(self) -> dict[str, Any]:
        """The live state: its tensors are the object's own, which it keeps modifying. For a copy use `state_dict`."""
        for name in self._remembered():
            if not hasattr(self, name):
                close = closest(name, [other for other in vars(self) if not other.startswith("_")])
                begin = f"begin with {name} = None in the class, or in a learner's prepare()"
                hint = f"did you mean '{close}'?" if close else begin
                raise MocaError(f"'{type(self).__name__}' remembers '{name}', but has none; {hint}")
        return {name: _state_of(getattr(self, name)) for name in self._remembered()}

    def state_dict(self) -> dict[str, Any]:
        """A copy of the state, to save or to load later."""
        return deepcopy(self.state())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state. Tensors of the same shape are overwritten in place, so recorded graphs stay valid."""
        for name in self._remembered():
            current, saved = getattr(self, name), state[name]
            if isinstance(current, Stateful | nn.Module):
                current.load_state_dict(saved)
            elif isinstance(current, Tensor) and isinstance(saved, Tensor) and current.shape == saved.shape:
                with torch.no_grad():
                    current.copy_(saved)
            else:
                setattr(self, name, deepcopy(saved))

    @classmethod
    def _remembered(cls) -> list[str]:
        return list(dict.fromkeys(name for base in reversed(cls.__mro__) for name in vars(base).get("remembers", ())))


def torch_bytes(state: Any) -> memoryview:
    """The state as `torch.save` writes it. Written to memory first, because torch's own error for a full disk does not
    say that the disk is full."""
    content = io.BytesIO()
    torch.save(state, content)
    return content.getbuffer()


def _state_of(value: Any) -> Any:
    if isinstance(value, Stateful):
        return value.state()
    return dict(value.state_dict()) if isinstance(value, nn.Module) else value


def layout(state: Any) -> Any:
    """A nested state with the address of every tensor instead of its values.

    Two layouts are equal as long as no tensor has moved and no plain value has changed. Empty containers are ignored.
    """
    if isinstance(state, Tensor):
        return state.data_ptr(), state.shape, state.dtype
    if isinstance(state, dict):
        parts = {name: layout(part) for name, part in state.items()}
        return {name: part for name, part in parts.items() if part is not None} or None
    if isinstance(state, list | tuple):
        return [layout(part) for part in state] or None
    return state


def on(device: torch.device | str, state: Any) -> Any:
    """A nested state with every tensor moved to a device."""
    return changed(state, lambda path, tensor: tensor.to(device))


def longer(rows: Tensor, count: int, fill: float = 0) -> Tensor:
    """`rows` extended to `count` rows; the added rows hold `fill`."""
    return torch.cat([rows, rows.new_full((count - len(rows), *rows.shape[1:]), fill)])


def placed_tensors(state: Any, path: Path = ()) -> Iterator[tuple[Path, Tensor]]:
    """Every tensor of a nested state with its path."""
    if isinstance(state, Tensor):
        yield path, state
    for name, part in _parts(state):
        yield from placed_tensors(part, (*path, name))


def changed(state: Any, change: Callable[[Path, Tensor], Tensor], path: Path = ()) -> Any:
    """A nested state with `change` applied to each tensor."""
    if isinstance(state, Tensor):
        return change(path, state)
    parts = {name: changed(part, change, (*path, name)) for name, part in _parts(state)}
    if isinstance(state, list | tuple):
        return type(state)(parts.values())
    return parts if isinstance(state, dict) else state


def _parts(state: Any) -> Iterator[tuple[Any, Any]]:
    """The direct children of a nested state with their keys or indices."""
    if isinstance(state, dict):
        yield from state.items()
    elif isinstance(state, list | tuple):
        yield from enumerate(state)
