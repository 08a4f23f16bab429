"""Encoders through torch.compile, which fuses their operations into fewer kernels."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import functional_call

_modules: dict[str, Callable[[dict[str, Tensor], Tensor], Tensor]] = {}


def shared(module: nn.Module) -> Callable[[dict[str, Tensor], Tensor], Tensor]:
    """The module as a compiled function of its tensors and its input; modules with the same repr share one
    compilation."""
    kind = f"{module} training={module.training}"
    if kind not in _modules:
        _modules[kind] = torch.compile(_function(copy.deepcopy(module)), dynamic=False)
    return _modules[kind]


def _function(module: nn.Module) -> Callable[[dict[str, Tensor], Tensor], Tensor]:
    """The module as a function with its own code object: torch recompiles the same code object only a few times, then
    falls back to eager."""

    def function(tensors: dict[str, Tensor], x: Tensor) -> Tensor:
        y: Tensor = functional_call(module, tensors, (x,))
        return y

    function.__code__ = function.__code__.replace()
    return function
