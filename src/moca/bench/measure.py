"""Measuring a step: its time, its arithmetic (FLOPs) and its memory."""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from moca.engine.pack import OnStream
from moca.engine.trainer import Trainer

Step = Callable[[], Any]
"""A function that takes one step of a run."""


@dataclass(frozen=True)
class Timing:
    """Milliseconds per step of one run, one value for each block of steps."""

    blocks: tuple[float, ...]
    steps: int

    @property
    def median(self) -> float:
        """Median over the blocks: the number to quote."""
        return statistics.median(self.blocks)


def time_steps(runs: Sequence[Step], device: torch.device, warm_up: int, steps: int, blocks: int) -> Timing:
    """Time runs that take turns step by step. The device is synchronised only at the ends of blocks."""
    _take_turns(runs, warm_up)
    return Timing(tuple(_block(runs, device, steps) for _ in range(blocks)), steps)


def _block(runs: Sequence[Step], device: torch.device, steps: int) -> float:
    synchronise(device)
    begun = time.perf_counter()
    _take_turns(runs, steps)
    synchronise(device)
    return 1e3 * (time.perf_counter() - begun) / (steps * len(runs))


def _take_turns(runs: Sequence[Step], steps: int) -> None:
    for _ in range(steps):
        for step in runs:
            step()


def stepping(make: Callable[[], Iterator[Any]], on_stream: OnStream = nullcontext) -> Step:
    """A function that takes one step of a run per call, always on the run's own CUDA stream."""
    with on_stream():
        steps = make()

    def step() -> None:
        with on_stream():
            next(steps)

    return step


def synchronise(device: torch.device) -> None:
    """Wait for the device."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


@dataclass(frozen=True)
class Work:
    """The work in one step of a method."""

    flops: int | None
    """Floating-point operations of convolutions and matrix products, forward and backward; a multiply-add counts as
    two. None where torch's counter fails: it cannot handle gradients with respect to features (fgsm)."""
    images: int
    """New and replayed images."""


def count_work(trainer: Trainer) -> Work:
    """Count the images and FLOPs of eager steps."""
    before, steps = trainer.learning.images_trained, trainer.steps()
    next(steps)
    images = trainer.learning.images_trained - before
    try:
        with FlopCounterMode(display=False) as counter:
            next(steps)
    except RuntimeError:
        return Work(None, images)
    return Work(counter.get_total_flops(), images)


def peak_memory(device: torch.device) -> dict[str, int]:
    """Peak memory in bytes.

    On a GPU, the memory allocated for tensors and the memory reserved since `forget_peak`; captured graphs keep theirs
    reserved. On the CPU, the peak of the whole process so far, which never shrinks.
    """
    if device.type == "cuda":
        return {
            "allocated": torch.cuda.max_memory_allocated(device),
            "reserved": torch.cuda.max_memory_reserved(device),
        }
    try:
        import resource
    except ImportError:
        return {}
    unit = 1 if sys.platform == "darwin" else 1024
    return {"process": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit}


def forget_peak(device: torch.device) -> None:
    """Free unused memory and reset the peak."""
    gc.collect()
    if device.type == "cuda":
        torch._C._cuda_clearCublasWorkspaces()  # those of earlier streams would count towards this peak
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
