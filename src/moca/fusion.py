"""Encoders through torch.compile, which fuses their operations into fewer kernels."""

from __future__ import annotations

import copy
from collections.abc import Callable
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.func import functional_call

Compiled = Callable[[dict[str, Tensor], Tensor], Tensor]
_of_ours: dict[str, Compiled] = {}
_of_others: WeakKeyDictionary[nn.Module, dict[str, Compiled]] = WeakKeyDictionary()


def compiled(module: nn.Module) -> Compiled:
    """The module as a compiled function of its tensors and its input.

    moca's own encoders share a compilation if they have the same repr. That of others need not show all in which they
    differ, so each has one of its own.
    """
    ours = type(module).__module__.partition(".")[0] == "moca"
    known = _of_ours if ours else _of_others.setdefault(module, {})
    kind = f"{module} training={module.training}"
    if kind not in known:
        without_weights = copy.deepcopy(module).to("meta")
        known[kind] = torch.compile(_function(without_weights), dynamic=False)
    return known[kind]


def _function(module: nn.Module) -> Compiled:
    """The module as a function with its own code object: torch recompiles the same code object only a few times, then
    falls back to eager."""

    def function(tensors: dict[str, Tensor], x: Tensor) -> Tensor:
        y: Tensor = functional_call(module, tensors, (x,))
        return y

    function.__code__ = function.__code__.replace()
    return function
