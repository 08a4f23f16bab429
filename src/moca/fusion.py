"""Fused execution: pure functions that torch.compile turns into a few kernels where a step is prepared for the GPU."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

import torch
from torch import Tensor, nn
from torch.func import functional_call

P = ParamSpec("P")
R = TypeVar("R")

_fusing = False


@contextmanager
def fusing(wanted: bool = True) -> Iterator[None]:
    """Inside, functions marked `fused` run compiled."""
    global _fusing
    before, _fusing = _fusing, wanted
    try:
        yield
    finally:
        _fusing = before


def fused(function: Callable[P, R]) -> Callable[P, R]:
    """Mark a pure function of tensors: compiled inside `fusing`, plain elsewhere, equal up to rounding."""

    @functools.cache
    def compiled() -> Callable[P, R]:
        return torch.compile(function, dynamic=False)

    @functools.wraps(function)
    def choose(*args: P.args, **kwargs: P.kwargs) -> R:
        return compiled()(*args, **kwargs) if _fusing else function(*args, **kwargs)

    return choose


def wanted() -> bool:
    """Whether fused execution is on."""
    return _fusing


_modules: dict[str, Callable[[dict[str, Tensor], Tensor], Tensor]] = {}


def shared(module: nn.Module) -> Callable[[dict[str, Tensor], Tensor], Tensor]:
    """The module as a compiled function of its tensors and its input: compiled once for all modules that print
    alike."""
    kind = f"{module} training={module.training}"
    if kind not in _modules:
        template = copy.deepcopy(module)
        _modules[kind] = torch.compile(lambda tensors, x: functional_call(template, tensors, (x,)), dynamic=False)
    return _modules[kind]
