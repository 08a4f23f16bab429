"""Switches of the whole process that a run's numbers depend on, set only while that run works."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import torch
from torch.backends import cudnn
from torch.backends.cuda import matmul


@dataclass(frozen=True)
class Numerics:
    """How a run calculates. Runs that take turns in one process may differ in it."""

    threads: int | None = None
    """Of the CPU; None for as many as the process has."""
    tf32: bool | None = None
    """Whether a GPU may round the factors of float32 products to TensorFloat-32; None where there is no GPU to tell."""

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Inside, these switches hold; afterwards those of before. A recorded graph keeps those of its recording."""
        with _threads(self.threads), nullcontext() if self.tf32 is None else _gpu(True, self.tf32, self.tf32):
            yield


@contextmanager
def torch_defaults() -> Iterator[None]:
    """Inside, what a program gets that sets nothing: TensorFloat-32 in convolutions, but not in other products."""
    with _gpu(deterministic=False, tf32_convolutions=True, tf32_products=False):
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
def _gpu(deterministic: bool, tf32_convolutions: bool, tf32_products: bool) -> Iterator[None]:
    """Algorithms chosen by timing them would depend on what else the GPU does at that moment."""
    before = cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32, matmul.allow_tf32
    cudnn.benchmark, cudnn.deterministic = False, deterministic
    cudnn.allow_tf32, matmul.allow_tf32 = tf32_convolutions, tf32_products
    try:
        yield
    finally:
        cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32, matmul.allow_tf32 = before
