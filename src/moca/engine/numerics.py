"""Switches of the whole process that a run's numbers depend on, set only while that run works."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch.backends import cudnn
from torch.backends.cuda import matmul


@dataclass(frozen=True)
class Numerics:
    """How a run calculates. Runs that take turns in one process may differ in it."""

    threads: int | None = None
    """Of the CPU; None for as many as the process has."""
    tf32: bool = False
    """Whether a GPU may round the factors of float32 products to TensorFloat-32."""

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Inside, these switches hold; afterwards those of before. A recorded graph keeps those of its recording."""
        before = torch.get_num_threads(), cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32, matmul.allow_tf32
        # Algorithms chosen by timing them would depend on what else the GPU does at that moment.
        _set(self.threads or before[0], False, True, self.tf32, self.tf32)
        try:
            yield
        finally:
            _set(*before)


def _set(threads: int, benchmark: bool, deterministic: bool, tf32_convolutions: bool, tf32_products: bool) -> None:
    if threads != torch.get_num_threads():
        torch.set_num_threads(threads)
    cudnn.benchmark, cudnn.deterministic = benchmark, deterministic
    cudnn.allow_tf32 = tf32_convolutions
    matmul.allow_tf32 = tf32_products
