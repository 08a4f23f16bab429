"""Triton kernels for the operations that decide the speed of a step on a GPU.

Each has an equivalent in plain PyTorch, which defines what it computes and is used everywhere else.
"""

import functools
import importlib.util
import warnings

import torch
from torch import Tensor

MOST_BATCHES = 3
"""The largest number of batches that BatchNorm's kernels can normalise separately."""


def usable(x: Tensor) -> bool:
    """Whether the kernels can be used on this tensor here and now; they compute in float32 and differentiate once."""
    return (
        x.is_cuda
        and x.dtype != torch.float64
        and x.device.index == torch.cuda.current_device()  # kernels are launched there, wherever their inputs are
        and not torch.compiler.is_compiling()
        and not torch._C._are_functorch_transforms_active()
        and _works()
    )


@functools.cache
def _works() -> bool:
    """Whether Triton is installed, with the C compiler that it needs for its first kernel."""
    if importlib.util.find_spec("triton") is None:
        return False
    try:
        import triton

        return bool(triton.runtime.driver.active.get_current_target())
    except Exception as error:  # whatever is missing, fall back to the plain operations
        warnings.warn(f"Triton cannot be used, so steps are slower: {error}", stacklevel=2)
        return False
