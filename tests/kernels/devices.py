"""Where Triton kernels can be tested: on a GPU, or on the CPU by Triton's interpreter."""

import importlib.util
import os

import torch


def kernel_device() -> torch.device | None:
    """The device, or None without triton. Call it before anything imports a kernel."""
    if importlib.util.find_spec("triton") is None:
        return None
    if torch.cuda.is_available():
        return torch.device("cuda")
    os.environ["TRITON_INTERPRET"] = "1"
    return torch.device("cpu")
