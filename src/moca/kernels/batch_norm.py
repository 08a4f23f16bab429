"""BatchNorm of several batches in one tensor, fused with the addition and the ReLU that follow it.

Two kernels forward, two backward. Images are channels-last, so a tensor is a matrix with one row per pixel. The first
kernel sums over stretches of rows; the second adds up these sums, always in the same order, and applies them. There is
no synchronisation and no atomic addition, so equal inputs give bit-identical results.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from moca.kernels import MOST_BATCHES

_PROGRAMS = 128
"""About one for each multiprocessor of a large GPU."""
_MOST_STRETCHES = 64
"""A limit, because every program of the second kernel reads the sums of all stretches of its channels."""
_TILE_ROWS, _TILE_CHANNELS = 128, 32
_WARPS = 4


class Statistics(NamedTuple):
    """Running statistics, and the shares with which they are averaged: their own, then each batch's."""

    mean: Tensor
    var: Tensor
    shares: Sequence[float]

    @property
    def arguments(self) -> tuple[Any, ...]:
        """The kernel's arguments, with shares of 0 for missing batches."""
        keep, *takes = self.shares
        return self.mean, self.var, keep, *takes, *[0.0] * (MOST_BATCHES - len(takes))


class Rows(NamedTuple):
    """Weights of the rows (images) of a single batch."""

    weights: Tensor
    """In float32, with a sum of 1; rows of weight 0 become zeros, plus the residual."""
    heaviest: Tensor
    """The index of the row with the largest weight."""


def batch_norm(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    sizes: Sequence[int],
    eps: float,
    running: Statistics | None = None,
    residual: Tensor | None = None,
    relu: bool = False,
    rows: Rows | None = None,
) -> Tensor:
    """Normalise each of the consecutive batches of `sizes` rows by its own statistics, add the residual, apply ReLU.

    Channels beyond those of `weight` must be zero, and stay zero.
    """
    if rows is not None and (len(sizes) > 1 or running is not None):
        raise ValueError("rows have weights in a single batch that moves no running statistics")
    y: Tensor = _BatchNorm.apply(x, weight, bias, tuple(sizes), eps, running, residual, relu, rows)
    return y


class _BatchNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        sizes: tuple[int, ...],
        eps: float,
        running: Statistics | None,
        residual: Tensor | None,
        relu: bool,
        rows: Rows | None,
    ) -> Tensor:
        x = x.contiguous(memory_format=torch.channels_last)
        if residual is not None:
            residual = residual.contiguous(memory_format=torch.channels_last)
        plan = _Plan.of(x, sizes, len(weight))
        y = torch.empty_like(x)
        partial = x.new_empty(plan.partial, dtype=torch.float32)
        mean, rstd = (x.new_empty(len(sizes), plan.channels, dtype=torch.float32) for _ in range(2))
        # Triton compiles a separate kernel for arguments that are None, without the code that uses them.
        weights, heaviest, pixels = (None, None, None) if rows is None else (*rows, x.shape[2] * x.shape[3])
        moved = (None,) * (3 + MOST_BATCHES) if running is None else running.arguments
        _sums[plan.grid(plan.stretches)](x, partial, weights, heaviest, pixels, *plan.arguments, **plan.constants)
        _normalise[plan.grid(plan.blocks)](
            x, y, residual, partial, weight, bias, mean, rstd, *moved, eps, weights, heaviest, pixels, *plan.arguments,
            RELU=relu, **plan.constants, BLOCKS=plan.blocks,
        )  # fmt: skip
        # Without a residual the sign of the output can be recomputed from the input; with one the output is needed.
        ctx.save_for_backward(x, weight, bias, mean, rstd, y if relu and residual is not None else None, weights)
        ctx.plan, ctx.relu, ctx.adds, ctx.pixels = plan, relu, residual is not None, pixels
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        x, weight, bias, mean, rstd, y, weights = ctx.saved_tensors
        plan, dy = ctx.plan, gradients[0].contiguous(memory_format=torch.channels_last)
        partial = x.new_empty(plan.partial, dtype=torch.float32)
        dx, dweight, dbias = torch.empty_like(x), torch.empty_like(weight), torch.empty_like(bias)
        dz = torch.empty_like(x) if y is not None else None
        _gradient_sums[plan.grid(plan.stretches)](
            x, dy, y, dz, partial, weight, bias, mean, rstd, weights, ctx.pixels, *plan.arguments,
            RELU=ctx.relu, **plan.constants,
        )  # fmt: skip
        masks = ctx.relu and y is None
        _input_gradient[plan.grid(plan.blocks)](
            x, dy if dz is None else dz, dx, partial, weight, bias, mean, rstd, dweight, dbias, weights, ctx.pixels,
            *plan.arguments, RELU=masks, **plan.constants, BLOCKS=plan.blocks,
        )  # fmt: skip
        return dx, dweight, dbias, None, None, None, (dy if dz is None else dz) if ctx.adds else None, None, None


class _Plan(NamedTuple):
    """How the rows and channels of a tensor are divided among programs."""

    channels: int
    learnt: int
    """The number of channels with a weight; the others are zeros."""
    ends: tuple[int, ...]
    """The row where each batch ends."""
    stretches: int
    """The number of parts into which the rows of a batch are divided for summing."""
    blocks: int
    """The number of parts into which the rows of a batch are divided for normalising."""
    tile: tuple[int, int]

    @classmethod
    def of(cls, x: Tensor, sizes: tuple[int, ...], learnt: int) -> _Plan:
        channels, pixels = x.shape[1], x.shape[2] * x.shape[3]
        columns = min(_TILE_CHANNELS, triton.next_power_of_2(channels))
        tile = (_TILE_ROWS * _TILE_CHANNELS // columns, columns)
        ends = tuple(pixels * sum(sizes[: i + 1]) for i in range(len(sizes)))
        if sum(sizes) != len(x) or len(sizes) > MOST_BATCHES:
            raise ValueError(f"up to {MOST_BATCHES} batches must make up the {len(x)} rows (they have {sizes})")
        share = max(1, _PROGRAMS // (len(sizes) * triton.cdiv(channels, columns)))
        tiles = triton.cdiv(pixels * max(sizes), tile[0])
        stretches = min(_MOST_STRETCHES, triton.next_power_of_2(share), triton.next_power_of_2(tiles))
        return cls(channels, learnt, ends, stretches, min(2 * share, tiles), tile)

    @property
    def partial(self) -> tuple[int, int, int, int]:
        return (2, len(self.ends), self.stretches, self.channels)

    @property
    def arguments(self) -> tuple[int, int, int, int, int]:
        """The arguments that every kernel takes: the ends of up to three batches, the number of groups of channels, and
        the number of channels with a weight."""
        first, second, third = (self.ends + self.ends[-1:] * 2)[:3]
        return first, second, third, self.channels // self.together, self.learnt

    @property
    def together(self) -> int:
        """The number of neighbouring channels that one vectorised load can read. Kernels get the number of such groups,
        from which they know that every row is aligned; Triton infers this itself only for multiples of 16."""
        return math.gcd(self.channels, 8)

    @property
    def constants(self) -> dict[str, int]:
        return {
            "BATCHES": len(self.ends),
            "STRETCHES": self.stretches,
            "TOGETHER": self.together,
            "TILE_R": self.tile[0],
            "TILE_C": self.tile[1],
            "num_warps": _WARPS,
        }

    def grid(self, parts: int) -> tuple[int, int, int]:
        return triton.cdiv(self.channels, self.tile[1]), parts, len(self.ends)


@triton.jit
def _batch(number, end0, end1, end2):
    """The first row of a batch, and the row after its last."""
    start = tl.where(number == 0, 0, tl.where(number == 1, end0, end1))
    end = tl.where(number == 0, end0, tl.where(number == 1, end1, end2))
    return start, end


@triton.jit
def _tile(first, end, columns, channels, TILE_R: tl.constexpr):
    """The offsets of a tile's entries, and the mask of those that belong to the batch."""
    rows = first + tl.arange(0, TILE_R)
    inside = (rows < end)[:, None] & (columns < channels)[None, :]
    return rows[:, None].to(tl.int64) * channels + columns[None, :], inside


@triton.jit
def _weights_of(weights, first, end, pixels, TILE_R: tl.constexpr):
    """The weights of a tile's rows, as a column; all rows of an image have the same."""
    rows = first + tl.arange(0, TILE_R)
    return tl.load(weights + rows // pixels, mask=rows < end, other=0.0)[:, None]


@triton.jit
def _seen(inside, weights, first, end, pixels, TILE_R: tl.constexpr):
    """The mask of a tile's entries whose rows have a positive weight."""
    if weights is not None:
        inside = inside & (_weights_of(weights, first, end, pixels, TILE_R) > 0)
    return inside


@triton.jit
def _pivot(x, start, heaviest, pixels, columns, channels):
    """A row that is subtracted before summing, to keep the sums small: the batch's first, or one with a weight."""
    row = start.to(tl.int64)
    if heaviest is not None:
        row = tl.load(heaviest) * pixels
    return tl.load(x + row * channels + columns, mask=columns < channels, other=0.0).to(tl.float32)


@triton.jit
def _keep_sums(partial, one, other, batch, stretch, columns, channels, BATCHES: tl.constexpr, STRETCHES: tl.constexpr):
    """Store the two sums of a stretch, one value per channel."""
    at = (batch * STRETCHES + stretch) * channels + columns
    tl.store(partial + at, tl.sum(one, 0), mask=columns < channels)
    tl.store(partial + BATCHES * STRETCHES * channels + at, tl.sum(other, 0), mask=columns < channels)


@triton.jit
def _totals(partial, batch, which, columns, channels, BATCHES: tl.constexpr, STRETCHES: tl.constexpr):
    """The total of the sums of all stretches of a batch."""
    stretch = tl.arange(0, STRETCHES)
    at = ((which * BATCHES + batch) * STRETCHES + stretch[:, None]) * channels + columns[None, :]
    return tl.sum(tl.load(partial + at, mask=columns[None, :] < channels, other=0.0), 0)


@triton.jit
def _sums(
    x, partial, weights, heaviest, pixels, end0, end1, end2, groups, learnt,
    BATCHES: tl.constexpr, STRETCHES: tl.constexpr, TOGETHER: tl.constexpr, TILE_R: tl.constexpr, TILE_C: tl.constexpr,
):  # fmt: skip
    """Sums of x - p and (x - p)^2, times the rows' weights, over stretches of rows; p is the pivot row."""
    channels = groups * TOGETHER
    columns = tl.program_id(0) * TILE_C + tl.arange(0, TILE_C)
    stretch, batch = tl.program_id(1), tl.program_id(2)
    start, end = _batch(batch, end0, end1, end2)
    pivot = _pivot(x, start, heaviest, pixels, columns, channels)
    total = tl.zeros((TILE_R, TILE_C), tl.float32)
    squares = tl.zeros((TILE_R, TILE_C), tl.float32)
    for first in range(start + stretch * TILE_R, end, STRETCHES * TILE_R):
        place, inside = _tile(first, end, columns, channels, TILE_R)
        seen = _seen(inside, weights, first, end, pixels, TILE_R)
        value = tl.load(x + place, mask=seen, other=0.0).to(tl.float32)
        value = tl.where(seen, value - pivot[None, :], 0.0)
        share = value
        if weights is not None:
            share = value * _weights_of(weights, first, end, pixels, TILE_R)
        total += share
        squares += share * value
    _keep_sums(partial, total, squares, batch, stretch, columns, channels, BATCHES, STRETCHES)


@triton.jit
def _count(start, end, pixels):
    """The divisor of sums over a batch: its number of rows, or the sum of their weights."""
    count = (end - start).to(tl.float32)
    if pixels is not None:
        count = pixels * 1.0
    return count


@triton.jit
def _moments(
    x, partial, batch, heaviest, pixels, end0, end1, end2, columns, channels, eps,
    BATCHES: tl.constexpr, STRETCHES: tl.constexpr,
):  # fmt: skip
    """Mean, variance, inverse standard deviation and divisor of a batch."""
    start, end = _batch(batch, end0, end1, end2)
    count = _count(start, end, pixels)
    pivot = _pivot(x, start, heaviest, pixels, columns, channels)
    shift = _totals(partial, batch, 0, columns, channels, BATCHES, STRETCHES) / count
    variance = _totals(partial, batch, 1, columns, channels, BATCHES, STRETCHES) / count - shift * shift
    variance = tl.where(variance < 0, 0.0, variance)
    return pivot + shift, variance, 1.0 / tl.sqrt(variance + eps), count


@triton.jit
def _normalise(
    x, y, residual, partial, weight, bias, mean_out, rstd_out, running_mean, running_var, keep, take0, take1, take2,
    eps, weights, heaviest, pixels, end0, end1, end2, groups, learnt, RELU: tl.constexpr, BATCHES: tl.constexpr,
    STRETCHES: tl.constexpr, TOGETHER: tl.constexpr, TILE_R: tl.constexpr, TILE_C: tl.constexpr, BLOCKS: tl.constexpr,
):  # fmt: skip
    """y = relu((x - mean) / std * weight + bias + residual); the first programs also store the statistics."""
    channels = groups * TOGETHER
    columns = tl.program_id(0) * TILE_C + tl.arange(0, TILE_C)
    block, batch = tl.program_id(1), tl.program_id(2)
    known, has_weight = columns < channels, columns < learnt
    mean, _variance, rstd, _count = _moments(
        x, partial, batch, heaviest, pixels, end0, end1, end2, columns, channels, eps, BATCHES, STRETCHES
    )
    if block == 0:
        tl.store(mean_out + batch * channels + columns, mean, mask=known)
        tl.store(rstd_out + batch * channels + columns, rstd, mask=known)
        if running_mean is not None:
            if batch == 0:
                moved_mean = keep * tl.load(running_mean + columns, mask=has_weight, other=0.0)
                moved_var = keep * tl.load(running_var + columns, mask=has_weight, other=0.0)
                for other in tl.static_range(BATCHES):
                    take = take0 if other == 0 else take1 if other == 1 else take2
                    its_mean, its_var, _its_rstd, count = _moments(
                        x,
                        partial,
                        other,
                        heaviest,
                        pixels,
                        end0,
                        end1,
                        end2,
                        columns,
                        channels,
                        eps,
                        BATCHES,
                        STRETCHES,
                    )
                    moved_mean += take * its_mean
                    moved_var += take * its_var * (count / tl.maximum(count - 1.0, 1.0))
                tl.store(running_mean + columns, moved_mean, mask=has_weight)
                tl.store(running_var + columns, moved_var, mask=has_weight)
    scale = tl.load(weight + columns, mask=has_weight, other=0.0).to(tl.float32) * rstd
    shift = tl.load(bias + columns, mask=has_weight, other=0.0).to(tl.float32)
    start, end = _batch(batch, end0, end1, end2)
    for first in range(start + block * TILE_R, end, BLOCKS * TILE_R):
        place, inside = _tile(first, end, columns, channels, TILE_R)
        seen = _seen(inside, weights, first, end, pixels, TILE_R)
        value = tl.load(x + place, mask=seen, other=0.0).to(tl.float32)
        value = (value - mean[None, :]) * scale[None, :] + shift[None, :]
        if weights is not None:
            value = tl.where(seen, value, 0.0)
        if residual is not None:
            value += tl.load(residual + place, mask=inside, other=0.0).to(tl.float32)
        if RELU:
            value = tl.where(value < 0, 0.0, value)  # NaN stays NaN, so that divergence is noticed
        tl.store(y + place, value, mask=inside)


@triton.jit
def _gradient_sums(
    x, dy, y, dz, partial, weight, bias, mean_in, rstd_in, weights, pixels, end0, end1, end2, groups, learnt,
    RELU: tl.constexpr, BATCHES: tl.constexpr, STRETCHES: tl.constexpr, TOGETHER: tl.constexpr, TILE_R: tl.constexpr,
    TILE_C: tl.constexpr,
):  # fmt: skip
    """Sums of dz and of dz times the normalised input over stretches of rows; dz is dy masked by the ReLU."""
    channels = groups * TOGETHER
    columns = tl.program_id(0) * TILE_C + tl.arange(0, TILE_C)
    stretch, batch = tl.program_id(1), tl.program_id(2)
    known, has_weight = columns < channels, columns < learnt
    start, end = _batch(batch, end0, end1, end2)
    mean = tl.load(mean_in + batch * channels + columns, mask=known, other=0.0)
    rstd = tl.load(rstd_in + batch * channels + columns, mask=known, other=0.0)
    scale = tl.load(weight + columns, mask=has_weight, other=0.0).to(tl.float32)
    shift = tl.load(bias + columns, mask=has_weight, other=0.0).to(tl.float32)
    total = tl.zeros((TILE_R, TILE_C), tl.float32)
    aligned = tl.zeros((TILE_R, TILE_C), tl.float32)
    for first in range(start + stretch * TILE_R, end, STRETCHES * TILE_R):
        place, inside = _tile(first, end, columns, channels, TILE_R)
        seen = _seen(inside, weights, first, end, pixels, TILE_R)
        value = (tl.load(x + place, mask=seen, other=0.0).to(tl.float32) - mean[None, :]) * rstd[None, :]
        slope = tl.load(dy + place, mask=inside, other=0.0).to(tl.float32)
        if RELU:
            if y is not None:
                slope = tl.where(tl.load(y + place, mask=inside, other=0.0).to(tl.float32) > 0, slope, 0.0)
                tl.store(dz + place, slope, mask=inside)
            else:
                slope = tl.where(value * scale[None, :] + shift[None, :] > 0, slope, 0.0)
        if weights is not None:
            slope = tl.where(seen, slope, 0.0)
        total += slope
        aligned += slope * value
    _keep_sums(partial, total, aligned, batch, stretch, columns, channels, BATCHES, STRETCHES)


@triton.jit
def _input_gradient(
    x, dz, dx, partial, weight, bias, mean_in, rstd_in, dweight, dbias, weights, pixels, end0, end1, end2, groups,
    learnt, RELU: tl.constexpr, BATCHES: tl.constexpr, STRETCHES: tl.constexpr, TOGETHER: tl.constexpr,
    TILE_R: tl.constexpr, TILE_C: tl.constexpr, BLOCKS: tl.constexpr,
):  # fmt: skip
    """dx = weight / std (dz - mean(dz) - xhat mean(dz xhat)); the first programs also store dweight and dbias.

    If rows have weights, the means are sums times the weight of each row.
    """
    channels = groups * TOGETHER
    columns = tl.program_id(0) * TILE_C + tl.arange(0, TILE_C)
    block, batch = tl.program_id(1), tl.program_id(2)
    known, has_weight = columns < channels, columns < learnt
    if block == 0:
        if batch == 0:
            total = tl.zeros((TILE_C,), tl.float32)
            aligned = tl.zeros((TILE_C,), tl.float32)
            for other in tl.static_range(BATCHES):
                total += _totals(partial, other, 0, columns, channels, BATCHES, STRETCHES)
                aligned += _totals(partial, other, 1, columns, channels, BATCHES, STRETCHES)
            tl.store(dbias + columns, total, mask=has_weight)
            tl.store(dweight + columns, aligned, mask=has_weight)
    start, end = _batch(batch, end0, end1, end2)
    count = _count(start, end, pixels)
    total = _totals(partial, batch, 0, columns, channels, BATCHES, STRETCHES) / count
    aligned = _totals(partial, batch, 1, columns, channels, BATCHES, STRETCHES) / count
    mean = tl.load(mean_in + batch * channels + columns, mask=known, other=0.0)
    rstd = tl.load(rstd_in + batch * channels + columns, mask=known, other=0.0)
    scale = tl.load(weight + columns, mask=has_weight, other=0.0).to(tl.float32)
    shift = tl.load(bias + columns, mask=has_weight, other=0.0).to(tl.float32)
    for first in range(start + block * TILE_R, end, BLOCKS * TILE_R):
        place, inside = _tile(first, end, columns, channels, TILE_R)
        seen = _seen(inside, weights, first, end, pixels, TILE_R)
        value = (tl.load(x + place, mask=seen, other=0.0).to(tl.float32) - mean[None, :]) * rstd[None, :]
        slope = tl.load(dz + place, mask=seen, other=0.0).to(tl.float32)
        if RELU:
            slope = tl.where(value * scale[None, :] + shift[None, :] > 0, slope, 0.0)
        back = total[None, :] + value * aligned[None, :]
        if weights is not None:
            back = back * _weights_of(weights, first, end, pixels, TILE_R)
        slope = (slope - back) * (scale * rstd)[None, :]
        if weights is not None:
            slope = tl.where(seen, slope, 0.0)
        tl.store(dx + place, slope, mask=inside)
