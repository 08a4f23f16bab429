"""The device of a run, and what it supports."""

from __future__ import annotations

import torch

from moca.errors import MocaError
from moca.settings import Run


def pick_device(name: str) -> torch.device:
    """The device of that name; `auto` is the GPU if there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise MocaError(f"unknown device '{name}'; use cpu, cuda or auto")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise MocaError("no CUDA device can be used here; use device=cpu or device=auto")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise MocaError(f"there is no device '{name}'; the last one is cuda:{torch.cuda.device_count() - 1}")
    return device


def check_execution(settings: Run) -> None:
    """Raise a `MocaError` for an execution mode or precision that the device or the learner does not support."""
    if settings.execution == "captured" and not settings.learner.make().static:
        raise MocaError(f"a step of '{settings.learner.name}' cannot be captured; use execution=eager")
    if settings.execution == "captured" and pick_device(settings.device).type != "cuda":
        raise MocaError("execution=captured needs a CUDA device; use execution=eager or compiled")
    if settings.precision == "tf32" and pick_device(settings.device).type != "cuda":
        raise MocaError("precision=tf32 needs a CUDA device; use precision=fp32")


def captures(settings: Run, device: torch.device) -> bool:
    """Whether steps are captured as CUDA graphs."""
    return device.type == "cuda" and settings.execution != "eager" and settings.learner.make().static


def has_bfloat16(device: torch.device) -> bool:
    """Whether this is a GPU with bfloat16 arithmetic: NVIDIA's since Ampere, or any of AMD's."""
    if device.type != "cuda":
        return False
    return torch.version.hip is not None or torch.cuda.get_device_capability(device) >= (8, 0)
