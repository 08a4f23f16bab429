"""The versions and the hardware behind a result."""

from __future__ import annotations

import functools
import os
import platform
import shutil
import subprocess
from pathlib import Path
from typing import Any

import torch

import moca


def environment(device: torch.device) -> dict[str, Any]:
    """Versions and hardware in brief, for the result of a run."""
    return {name: version for name, version in versions().items() if name in ("moca", "torch", "python")} | {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine(),
        "threads": torch.get_num_threads(),
        "host": platform.node(),
        "code": code(),
    }


@functools.cache
def code() -> str:
    """The version of moca and, in a git checkout, the commit, marked if files were changed."""
    checkout, git = Path(moca.__file__).parents[2], shutil.which("git")
    if git is None or not (checkout / ".git").exists():
        return moca.__version__
    command = [git, "-C", str(checkout), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    commit = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return f"{moca.__version__}+{commit}" if commit else moca.__version__


def hardware(device: torch.device) -> dict[str, Any]:
    """Processor, cores, threads, load of the machine, and the GPU."""
    about = {
        "device": device.type,
        "cpu": processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
    }
    if device.type == "cuda":
        card = torch.cuda.get_device_properties(device)
        about |= {"gpu": card.name, "gpu_memory": card.total_memory, "driver": _driver()}
    return about


def versions() -> dict[str, Any]:
    """The versions that results depend on."""
    return {
        "moca": moca.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
    }


def processor() -> str:
    """The name of the processor, as far as the system provides it."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.is_file() else []
    named = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return named or platform.processor() or platform.machine()


def _driver() -> str | None:
    """The version of the NVIDIA driver, if `nvidia-smi` reports it."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return None
    command = [tool, "--query-gpu=driver_version", "--format=csv,noheader"]
    output = subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()
    return output[0] if output else None
