"""Augmentation in a kernel gives the plain pixels."""

import pytest
import torch

from moca.data.transform import _transform
from tests.kernels.devices import kernel_device

DEVICE = kernel_device()
if DEVICE:
    from moca.kernels.transform import transform

pytestmark = pytest.mark.skipif(DEVICE is None, reason="needs triton")


@pytest.mark.parametrize(("padding", "flip"), [(4, True), (2, False), (0, True)])
@pytest.mark.parametrize("shape", [(5, 3, 32, 32), (3, 1, 9, 14)])
def test_like_the_plain_transform(padding: int, flip: bool, shape: tuple[int, ...]):
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)
    place = torch.rand(3, shape[0], 1, generator=generator)
    scale, shift = torch.rand(shape[1], generator=generator), torch.rand(shape[1], generator=generator)
    expected = _transform(images, place, None, padding, flip, scale, shift)
    got = transform(*(t.to(DEVICE) for t in (images, place)), padding, flip, scale.to(DEVICE), shift.to(DEVICE))
    assert got.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(got.cpu(), expected, rtol=1e-6, atol=1e-4)
