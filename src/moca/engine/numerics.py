"""Process-wide switches that affect a run's numbers, set only while that run is working."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

import torch
from torch.backends import cudnn
from torch.backends.cuda import matmul


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
        with _threads(self.threads), nullcontext() if self.tf32 is None else _gpu(True, self.tf32, self.tf32):
            yield


def torch_defaults() -> AbstractContextManager[None]:
    """Set torch's defaults inside the block: TensorFloat-32 in convolutions, but not in other products."""
    return _gpu(deterministic=False, tf32_convolutions=True, tf32_products=False)


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
def _gpu(deterministic: bool, tf32_convolutions: bool, tf32_products: bool) -> Iterator[None]:
    """Set the GPU's switches. Benchmarking is off: algorithms chosen by timing would depend on what else the GPU does
    at that moment."""
    before = cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32, matmul.allow_tf32
    cudnn.benchmark, cudnn.deterministic = False, deterministic
    cudnn.allow_tf32, matmul.allow_tf32 = tf32_convolutions, tf32_products
    try:
        yield
    finally:
        cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32, matmul.allow_tf32 = before
