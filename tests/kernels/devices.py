"""Where Triton kernels can be tested: on a GPU, or on the CPU by Triton's interpreter."""

import importlib.util

import torch


def kernel_device() -> torch.device | None:
    """The device, or None without triton."""
    if importlib.util.find_spec("triton") is None:
        return None
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
