"""Fused execution: encoders that torch.compile has turned into fewer kernels."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import functional_call

_modules: dict[str, Callable[[dict[str, Tensor], Tensor], Tensor]] = {}


def shared(module: nn.Module) -> Callable[[dict[str, Tensor], Tensor], Tensor]:
    """The module as a compiled function of its tensors and its input: compiled once for all modules that print
    alike."""
    kind = f"{module} training={module.training}"
    if kind not in _modules:
        _modules[kind] = torch.compile(_function(copy.deepcopy(module)), dynamic=False)
    return _modules[kind]


def _function(module: nn.Module) -> Callable[[dict[str, Tensor], Tensor], Tensor]:
    """The module as a function with code of its own: torch compiles the same code a few times only, then runs it as
    it is."""

    def function(tensors: dict[str, Tensor], x: Tensor) -> Tensor:
        y: Tensor = functional_call(module, tensors, (x,))
        return y

    function.__code__ = function.__code__.replace()
    return function
