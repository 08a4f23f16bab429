"""Process-wide switches that affect a run's numbers, set only while that run is working."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch.backends import cudnn

from moca.errors import MocaError


@dataclass(frozen=True)
class Numerics:
    """The switches of one run; runs that take turns in one process may differ in them."""

    threads: int | None = None
    """CPU threads; None for as many as the process has."""
    tf32: bool | None = None
    """Whether the GPU may use TensorFloat-32 for float32 products; None on a CPU."""

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Set the switches inside the block, and restore them afterwards. A recorded graph keeps those of its
        recording."""
        with _threads(self.threads):
            if self.tf32 is None:
                yield
            else:
                with deterministic(), tf32(self.tf32, self.tf32):
                    yield


@contextmanager
def torch_defaults() -> Iterator[None]:
    """Set torch's defaults inside the block: TensorFloat-32 in convolutions, but not in other products."""
    with deterministic(False), tf32(convolutions=True, products=False):
        yield


@contextmanager
def _threads(wanted: int | None) -> Iterator[None]:
    before = torch.get_num_threads()
    if wanted in (None, before):
        yield
        return
    torch.set_num_threads(wanted)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def deterministic(only: bool = True) -> Iterator[None]:
    """Set whether cuDNN uses only deterministic algorithms. It never chooses them by timing, which would depend on what
    else the GPU does at that moment."""
    before = cudnn.benchmark, cudnn.deterministic
    cudnn.benchmark, cudnn.deterministic = False, only
    try:
        yield
    finally:
        cudnn.benchmark, cudnn.deterministic = before


@contextmanager
def tf32(convolutions: bool, products: bool) -> Iterator[None]:
    """Set whether float32 convolutions on a GPU, and other float32 products anywhere, may round their factors to
    TensorFloat-32."""
    try:
        before = cudnn.allow_tf32, torch.get_float32_matmul_precision()
    except RuntimeError:  # torch says no more than that both ways of setting it were used
        raise MocaError(
            "fp32_precision of torch.backends was set, which moca cannot put back; set it with "
            "torch.set_float32_matmul_precision(...) and torch.backends.cudnn.allow_tf32 instead"
        ) from None
    cudnn.allow_tf32 = convolutions
    torch.set_float32_matmul_precision("high" if products else "highest")
    try:
        yield
    finally:
        cudnn.allow_tf32 = before[0]
        torch.set_float32_matmul_precision(before[1])
