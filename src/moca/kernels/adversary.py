"""The gradient of the loss of WAP's inner step with respect to the logits."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor


def slope(logits: Tensor, y: Tensor, weights: Tensor) -> Tensor:
    """The gradient of the sum of weighted cross-entropies with respect to the logits."""
    logits, out = logits.contiguous(), torch.empty(logits.shape, device=logits.device, dtype=logits.dtype)
    rows, columns = logits.shape
    grid: Any = (rows,)
    _slope[grid](logits, y.contiguous(), weights, out, columns, BLOCK=triton.next_power_of_2(columns))
    return out


@triton.jit
def _slope(logits, y, weights, out, columns, BLOCK: tl.constexpr):
    at, row = tl.arange(0, BLOCK), tl.program_id(0)
    inside, place = at < columns, row.to(tl.int64) * columns + at
    value = tl.load(logits + place, mask=inside, other=-float("inf")).to(tl.float32)
    raised = tl.exp(value - tl.max(value, 0))
    gradient = raised / tl.sum(raised, 0) - (at == tl.load(y + row)).to(tl.float32)
    tl.store(out + place, gradient * tl.load(weights + row), mask=inside)
