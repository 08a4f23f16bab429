"""Crop, flip and normalise a batch of raw images in one kernel."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 1024


def transform(images: Tensor, place: Tensor, padding: int, flip: bool, scale: Tensor, shift: Tensor) -> Tensor:
    """Crop and flip images (bytes) by the random numbers in `place`, then scale and shift them; channels-last."""
    n, channels, height, width = images.shape
    out = torch.empty(images.shape, device=images.device, memory_format=torch.channels_last)
    grid: Any = (n, triton.cdiv(channels * height * width, _BLOCK))
    _transform[grid](
        images.contiguous(), place, scale, shift, out, n, channels, height, width, padding, FLIP=flip, BLOCK=_BLOCK
    )
    return out


@triton.jit
def _transform(
    images, place, scale, shift, out, n, channels, height, width, padding, FLIP: tl.constexpr, BLOCK: tl.constexpr
):
    """`place` holds three numbers in (0, 1) per image: vertical shift, horizontal shift, and whether to flip."""
    image = tl.program_id(0)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    channel, pixel = at % channels, at // channels
    inside = at < channels * height * width
    steps = 2.0 * padding + 1.0
    row = pixel // width + (tl.load(place + image) * steps).to(tl.int32) - padding
    column = pixel % width
    if FLIP:
        column = tl.where(tl.load(place + 2 * n + image) < 0.5, width - 1 - column, column)
    column += (tl.load(place + n + image) * steps).to(tl.int32) - padding
    seen = inside & (row >= 0) & (row < height) & (column >= 0) & (column < width)
    source = ((image.to(tl.int64) * channels + channel) * height + row) * width + column
    value = tl.load(images + source, mask=seen, other=0).to(tl.float32)
    value = value * tl.load(scale + channel, mask=inside) + tl.load(shift + channel, mask=inside)
    tl.store(out + image.to(tl.int64) * channels * height * width + at, value, mask=inside)
