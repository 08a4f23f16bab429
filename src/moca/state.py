"""State: what an object must keep to go on exactly, in one place for checkpoints and for recorded graphs."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from torch import Tensor


class Stateful:
    """Something with a state, which is a nested dictionary of tensors and plain values."""

    def state(self) -> dict[str, Any]:
        """The state itself: the tensors are those that the object goes on changing."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """A copy of the state, to be saved or loaded later."""
        return deepcopy(self.state())


def tensors_in(state: Any) -> Iterator[Tensor]:
    """Every tensor of a nested state."""
    if isinstance(state, Tensor):
        yield state
    elif isinstance(state, dict):
        for part in state.values():
            yield from tensors_in(part)
    elif isinstance(state, list | tuple):
        for part in state:
            yield from tensors_in(part)
