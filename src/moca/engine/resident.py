"""Images on the device: one copy for everybody in the process who asks for them."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

_SHARE = 0.5
"""The share of the free device memory that images may take."""
_copies: WeakTensorKeyDictionary = WeakTensorKeyDictionary()
"""By where they are, of images on the host: gone with these."""


def resident(images: Tensor, device: torch.device, room: int | None = None) -> Tensor:
    """The images on the device; as they are where they would take more than `room` bytes there, by default half of
    what is free. Runs that are packed hold the images of their data set together."""
    if images.device.type == device.type or device.type == "cpu":
        return images
    copies: dict[tuple[str, int], Tensor] = _copies.setdefault(images, {})
    where = device.type, _number(device)
    if where not in copies:
        if images.nbytes > (_room(device) if room is None else room):
            return images
        copies[where] = images.to(device)
        if device.type == "cuda":
            torch.cuda.current_stream(device).synchronize()  # others use it on streams of their own
    return copies[where]


def _number(device: torch.device) -> int:
    """Settings say cuda, weights cuda:0."""
    if device.index is None and device.type == "cuda":
        return torch.cuda.current_device()
    return device.index or 0


def _room(device: torch.device) -> int:
    free, _ = torch.cuda.mem_get_info(device)
    return int(_SHARE * free)
