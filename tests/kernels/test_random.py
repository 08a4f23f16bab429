"""Random numbers in a kernel are the plain ones, bit for bit."""

import pytest
import torch

from moca.random import Random
from tests.kernels.devices import kernel_device

DEVICE = kernel_device()
if DEVICE:
    from moca.kernels.random import numbers

pytestmark = pytest.mark.skipif(DEVICE is None, reason="needs triton")


@pytest.mark.parametrize("dtype", [torch.int64, torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(1,), (3, 100), (257,)])
@pytest.mark.parametrize("count", [0, 2**40 + 17])
def test_the_same_sequence(dtype: torch.dtype, shape: tuple[int, ...], count: int):
    plain = Random(5, "test")
    plain.count += count
    key, start = plain.key.to(DEVICE), plain.count.to(DEVICE, copy=True)
    expected = plain.bits(*shape) if dtype == torch.int64 else plain.uniform(*shape, dtype=dtype)
    assert torch.equal(numbers(key, start, shape, dtype).cpu(), expected)
    assert start == count, "the kernel reads the counter, whoever calls it moves it"
