"""Images on the device: one copy, shared by all runs of the process."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

_SHARE = 0.5
"""The share of the free device memory that images may take."""
_copies: WeakTensorKeyDictionary = WeakTensorKeyDictionary()
"""For each tensor of images on the host, its copies by device; freed together with the original."""


def resident(images: Tensor, device: torch.device) -> Tensor:
    """The images on the device, or unchanged if they would take more than half of the free memory there. Packed runs
    share the copy of their data set."""
    if images.device.type == device.type or device.type == "cpu":
        return images
    copies: dict[tuple[str, int], Tensor] = _copies.setdefault(images, {})
    where = device.type, _number(device)
    if where not in copies:
        if images.nbytes > _room(device):
            return images
        copies[where] = images.to(device)
        if device.type == "cuda":
            torch.cuda.current_stream(device).synchronize()  # other runs use the copy on their own streams
    return copies[where]


def _number(device: torch.device) -> int:
    """The index of a device; settings may say just cuda, where tensors say cuda:0."""
    if device.index is None and device.type == "cuda":
        return torch.cuda.current_device()
    return device.index or 0


def _room(device: torch.device) -> int:
    """How many bytes the images may take on a device."""
    free, _ = torch.cuda.mem_get_info(device)
    return int(_SHARE * free)
