"""What WAP's inner step takes besides the network: the rows that it sees, and the slope of its loss."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

MOST_ROWS = 128
"""Every row is compared with every other."""


def rows_in_turn(old: Tensor) -> tuple[Tensor, Tensor]:
    """As many row numbers as there are rows: the old ones, repeated in turn; and weights that make a sum their mean."""
    rows, weights = (torch.empty(len(old), device=old.device, dtype=dtype) for dtype in (torch.int64, torch.float32))
    grid: Any = (1,)
    _rows_in_turn[grid](old.contiguous(), rows, weights, len(old), BLOCK=triton.next_power_of_2(len(old)))
    return rows, weights


def slope(logits: Tensor, y: Tensor, weights: Tensor) -> Tensor:
    """The gradient of the sum of weighted cross-entropies by the logits."""
    logits, out = logits.contiguous(), torch.empty(logits.shape, device=logits.device, dtype=logits.dtype)
    rows, columns = logits.shape
    grid: Any = (rows,)
    _slope[grid](logits, y.contiguous(), weights, out, columns, BLOCK=triton.next_power_of_2(columns))
    return out


@triton.jit
def _rows_in_turn(old, rows, weights, count, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    inside = at < count
    marked = tl.load(old + at, mask=inside, other=0).to(tl.int32)
    number = tl.sum(marked, 0)
    divisor = tl.maximum(number, 1)
    turn = at % divisor
    # A row is the one wanted if as many old ones as its turn says have come before: count the rows up to there.
    passed = (tl.cumsum(marked, 0)[None, :] <= turn[:, None]) & inside[None, :]
    row = tl.minimum(tl.sum(passed.to(tl.int32), 1), count - 1)
    tl.store(rows + at, row, mask=inside)
    tl.store(weights + at, tl.where(at < number, 1.0 / divisor, 0.0), mask=inside)


@triton.jit
def _slope(logits, y, weights, out, columns, BLOCK: tl.constexpr):
    at, row = tl.arange(0, BLOCK), tl.program_id(0)
    inside, place = at < columns, row.to(tl.int64) * columns + at
    value = tl.load(logits + place, mask=inside, other=-float("inf")).to(tl.float32)
    raised = tl.exp(value - tl.max(value, 0))
    gradient = raised / tl.sum(raised, 0) - (at == tl.load(y + row)).to(tl.float32)
    tl.store(out + place, gradient * tl.load(weights + row), mask=inside)
