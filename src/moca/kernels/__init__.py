"""Triton kernels for the operations that decide the speed of a step on a GPU.

Each has a plain twin in PyTorch, which says what it computes and runs everywhere else.
"""

import functools
import importlib.util
import warnings

import torch
from torch import Tensor

MOST_BATCHES = 3
"""Most batches that BatchNorm's kernels can tell apart."""


def usable(x: Tensor) -> bool:
    """Whether kernels, which compute in float32 and are differentiable once, can work on this tensor here and now."""
    return (
        x.is_cuda
        and x.dtype != torch.float64
        and x.device.index == torch.cuda.current_device()  # where a kernel is launched, whatever it is given
        and not torch.compiler.is_compiling()
        and not torch._C._are_functorch_transforms_active()
        and _works()
    )


@functools.cache
def _works() -> bool:
    """Whether Triton is there, and with it the C compiler that it needs for its first kernel."""
    if importlib.util.find_spec("triton") is None:
        return False
    try:
        import triton

        return bool(triton.runtime.driver.active.get_current_target())
    except Exception as error:  # whatever is missing, the plain operations work
        warnings.warn(f"Triton cannot be used, so steps are slower: {error}", stacklevel=2)
        return False
