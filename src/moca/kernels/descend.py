"""A gradient-descent step, stored in the precision in which the weights will be used."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 2048


def descend(weight: Tensor, step: Tensor, dtype: torch.dtype) -> Tensor:
    """weight - step, rounded once; the weight must be dense in memory, in any order of dimensions."""
    if step.stride() != weight.stride():
        step = torch.empty_like(weight, dtype=step.dtype).copy_(step)
    moved = torch.empty_like(weight, dtype=dtype)
    grid: Any = (triton.cdiv(weight.numel(), _BLOCK),)
    _descend[grid](weight, step, moved, weight.numel(), BLOCK=_BLOCK, num_warps=8)
    return moved


@triton.jit
def _descend(weight, step, moved, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    value = tl.load(weight + at, mask=inside).to(tl.float32) - tl.load(step + at, mask=inside).to(tl.float32)
    tl.store(moved + at, value, mask=inside)
