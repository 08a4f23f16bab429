"""A step down a gradient in a kernel rounds once, like the plain one."""

import pytest
import torch

from tests.kernels.devices import kernel_device

DEVICE = kernel_device()
if DEVICE:
    from moca.kernels.descend import descend

pytestmark = pytest.mark.skipif(DEVICE is None, reason="needs triton")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last])
def test_like_the_plain_step(dtype: torch.dtype, order: torch.memory_format):
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(70, 9, 3, 3, generator=generator).contiguous(memory_format=torch.channels_last)
    step = 0.1 * torch.randn(70, 9, 3, 3, generator=generator).bfloat16().contiguous(memory_format=order)
    moved = descend(weight.to(DEVICE), step.to(DEVICE), dtype)
    assert moved.dtype == dtype
    assert moved.stride() == weight.stride()
    # The interpreter cuts digits off where a GPU rounds.
    tolerance = 0 if DEVICE.type == "cuda" or dtype == torch.float32 else 2**-7
    torch.testing.assert_close(moved.cpu(), (weight - step.float()).to(dtype), rtol=tolerance, atol=0)
