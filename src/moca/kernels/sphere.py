"""Projection and displacement on the hypersphere with closed-form gradients, one program per row."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable


def project(v: Tensor, tiny: float) -> Tensor:
    """P(v) = v / ||v||; zero for rows no longer than `tiny`."""
    u: Tensor = _Project.apply(v, tiny)
    return u


def displace(h: Tensor, n: Tensor, lam: float, unit: bool, old: Tensor | None, tiny: float) -> Tensor:
    """f = ||h|| P(P(h) + lam P(n)) in the rows that are old, h in the others; n gets no gradient."""
    f: Tensor = _Displace.apply(h, n, lam, unit, old, tiny)
    return f


def _launch(kernel: Any, rows: int, columns: int, *inputs: Any, **switches: bool) -> None:
    kernel[(rows,)](*inputs, columns, **switches, BLOCK=triton.next_power_of_2(columns))


class _Project(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, v: Tensor, tiny: float) -> Tensor:
        v = v.contiguous()
        u = torch.empty_like(v)
        _launch(_project, *v.shape, v, u, tiny)
        ctx.save_for_backward(v)
        ctx.tiny = tiny
        return u

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (v,) = ctx.saved_tensors
        dv = torch.empty_like(v)
        _launch(_project_gradient, *v.shape, v, gradients[0].contiguous(), dv, ctx.tiny)
        return dv, None


class _Displace(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, n: Tensor, lam: float, unit: bool, old: Tensor | None, tiny: float) -> Tensor:
        h, n, old = h.contiguous(), n.contiguous(), None if old is None else old.contiguous()
        f = torch.empty_like(h)
        _launch(_displace, *h.shape, h, n, f, old, lam, tiny, UNIT=unit)
        ctx.save_for_backward(h, n, old)
        ctx.lam, ctx.unit, ctx.tiny = lam, unit, tiny
        return f

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        h, n, old = ctx.saved_tensors
        dh = torch.empty_like(h)
        df = gradients[0].contiguous()
        _launch(_displace_gradient, *h.shape, h, n, df, dh, old, ctx.lam, ctx.tiny, UNIT=ctx.unit)
        return dh, None, None, None, None, None


@triton.jit
def _row(matrix, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    return tl.load(matrix + tl.program_id(0).to(tl.int64) * columns + at, mask=at < columns, other=0.0).to(tl.float32)


@triton.jit
def _keep(matrix, row, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(matrix + tl.program_id(0).to(tl.int64) * columns + at, row, mask=at < columns)


@triton.jit
def _inverse_length(v, tiny):
    """1 / ||v||; zero for a row no longer than `tiny`, which has no direction."""
    length = tl.sqrt(tl.sum(v * v, 0))
    return tl.where(length <= tiny, 0.0, 1.0 / tl.where(length <= tiny, 1.0, length))


@triton.jit
def _project(v, u, tiny, columns, BLOCK: tl.constexpr):
    row = _row(v, columns, BLOCK)
    _keep(u, row * _inverse_length(row, tiny), columns, BLOCK)


@triton.jit
def _project_gradient(v, du, dv, tiny, columns, BLOCK: tl.constexpr):
    """(I - u u^T) du / ||v||."""
    row, slope = _row(v, columns, BLOCK), _row(du, columns, BLOCK)
    inverse = _inverse_length(row, tiny)
    u = row * inverse
    _keep(dv, (slope - tl.sum(slope * u, 0) * u) * inverse, columns, BLOCK)


@triton.jit
def _moved(h, n, lam, tiny, UNIT: tl.constexpr):
    """u = P(h), w = P(u + lam n) and 1 / ||u + lam n||."""
    u = h * _inverse_length(h, tiny)
    if UNIT:
        n = n * _inverse_length(n, tiny)
    v = u + lam * n
    inverse = _inverse_length(v, tiny)
    return u, v * inverse, inverse


@triton.jit
def _displace(h, n, f, old, lam, tiny, columns, UNIT: tl.constexpr, BLOCK: tl.constexpr):
    row = _row(h, columns, BLOCK)
    _u, w, _inverse = _moved(row, _row(n, columns, BLOCK), lam, tiny, UNIT)
    moved = tl.sqrt(tl.sum(row * row, 0)) * w
    if old is not None:
        moved = tl.where(tl.load(old + tl.program_id(0)), moved, row)
    _keep(f, moved, columns, BLOCK)


@triton.jit
def _displace_gradient(h, n, df, dh, old, lam, tiny, columns, UNIT: tl.constexpr, BLOCK: tl.constexpr):
    """(df w) u + (I - u u^T) (I - w w^T) df / ||u + lam n||."""
    row, slope = _row(h, columns, BLOCK), _row(df, columns, BLOCK)
    u, w, inverse = _moved(row, _row(n, columns, BLOCK), lam, tiny, UNIT)
    along = tl.sum(slope * w, 0)
    across = (slope - along * w) * inverse
    # A zero row has no direction, so neither its length nor its direction can be differentiated.
    across = tl.where(_inverse_length(row, tiny) > 0, across - tl.sum(across * u, 0) * u, 0.0)
    gradient = along * u + across
    if old is not None:
        gradient = tl.where(tl.load(old + tl.program_id(0)), gradient, slope)
    _keep(dh, gradient, columns, BLOCK)
