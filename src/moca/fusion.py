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
        template = copy.deepcopy(module)
        _modules[kind] = torch.compile(lambda tensors, x: functional_call(template, tensors, (x,)), dynamic=False)
    return _modules[kind]
