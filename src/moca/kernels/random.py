"""SplitMix64 in one kernel."""

import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 256
_DIGITS = {torch.int64: 0, torch.float32: 23, torch.float64: 52}


def numbers(key: Tensor, count: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Random numbers that start at the counter: 64 bits per entry as int64, or uniform in (0, 1) as floats."""
    out = torch.empty(shape, dtype=dtype, device=key.device)
    n = math.prod(shape)
    grid: Any = (triton.cdiv(n, _BLOCK),)
    _numbers[grid](key, count, out, n, DIGITS=_DIGITS[dtype], BLOCK=_BLOCK)
    return out


@triton.jit
def _numbers(key, count, out, n, DIGITS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = (at.to(tl.int64) + 1 + tl.load(count)) * -7046029254386353131 + tl.load(key)
    x = x.to(tl.uint64, bitcast=True)
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB
    x = x ^ (x >> 31)
    if DIGITS == 0:
        tl.store(out + at, x.to(tl.int64, bitcast=True), mask=at < n)
    else:
        fraction = (x >> (64 - DIGITS)).to(out.dtype.element_ty)
        tl.store(out + at, (fraction + 0.5) * (1.0 / (1 << DIGITS)), mask=at < n)
