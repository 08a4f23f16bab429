"""BatchNorm of one batch with weighted rows; its shapes do not depend on which rows count."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def weighted(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, rows: Tensor) -> Tensor:
    """Normalise x by the mean and (biased) variance weighted by `rows`, which sum to 1.

    Rows of weight 0 come out as zeros and get no gradient; if all weights are 0, no row gets one.
    """
    # One row per sample, then pixels, channels last.
    cells = x.movedim(1, -1)
    weight = x.new_ones(x.shape[1]) if weight is None else weight
    bias = x.new_zeros(x.shape[1]) if bias is None else bias
    y: Tensor = _Weighted.apply(cells.reshape(len(x), -1, x.shape[1]), weight, bias, eps, rows)  # type: ignore[no-untyped-call]
    return y.view(cells.shape).movedim(-1, 1)


class _Weighted(torch.autograd.Function):
    """For x of shape (rows, pixels, channels). Plain autograd would read x three times as often."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, eps: float, rows: Tensor) -> Tensor:
        precise = torch.promote_types(x.dtype, torch.float32)
        rows, centred = rows.to(precise), x.to(precise)
        counts = (rows > 0).to(precise)
        pixels = x.shape[1]
        centred = centred - _sum(rows, centred) / pixels
        rstd = (_sum(rows, centred.square()) / pixels + eps).rsqrt()
        ctx.save_for_backward(centred, weight, rstd, rows, counts)
        y = torch.addcmul(_outer(counts, bias), centred, _outer(counts, weight * rstd))
        # Compiled by torch 2.11, a cast that changes nothing would make the gradients wrong.
        return y if y.dtype == x.dtype else y.to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        centred, weight, rstd, rows, counts = ctx.saved_tensors
        dy, scale = gradients[0].to(centred.dtype), weight * rstd
        total, aligned = _sum(counts, dy), _sum(counts, dy * centred) * rstd
        # dx = scale (dy - rows (mean(dy) + normalised mean(dy normalised))), with the means over pixels only.
        back = rows / -centred.shape[1]
        dx = torch.addcmul(_outer(back, scale * total), centred, _outer(back, scale * rstd * aligned))
        dx = torch.addcmul(dx, dy, _outer(counts, scale))
        return dx.to(gradients[0].dtype), aligned.to(weight.dtype), total.to(weight.dtype), None, None


def _sum(rows: Tensor, x: Tensor) -> Tensor:
    """Sum over weighted rows and all pixels: one number per channel."""
    return (rows @ x.flatten(1)).view(x.shape[1:]).sum(0)


def _outer(rows: Tensor, channels: Tensor) -> Tensor:
    return (rows[:, None] * channels)[:, None]
