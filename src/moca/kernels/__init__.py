"""Triton kernels for the operations that decide the speed of a step on a GPU.

Each has a plain twin in PyTorch, which says what it computes and runs everywhere else.
"""

import functools
import importlib.util

import torch
from torch import Tensor


def usable(x: Tensor) -> bool:
    """Whether kernels, which compute in float32, can work on this tensor here and now; torch.compile writes its own."""
    return x.is_cuda and x.dtype != torch.float64 and _installed() and not torch.compiler.is_compiling()


@functools.cache
def _installed() -> bool:
    return importlib.util.find_spec("triton") is not None
