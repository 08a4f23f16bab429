"""Projection and displacement in kernels against the plain formulas, in values and gradients."""

import pytest
import torch
from torch import Tensor

from moca import sphere
from tests.kernels.devices import kernel_device

DEVICE = kernel_device()
if DEVICE:
    from moca.kernels import sphere as kernel

pytestmark = pytest.mark.skipif(DEVICE is None, reason="needs triton")


def rows(seed: int, count: int = 6, features: int = 37) -> Tensor:
    values = torch.randn(count, features, generator=torch.Generator().manual_seed(seed))
    values[2] = 0
    return values


def with_gradient(function, x: Tensor, df: Tensor) -> tuple[Tensor, Tensor]:
    leaf = x.clone().requires_grad_()
    f = function(leaf)
    return f.detach(), torch.autograd.grad(f, leaf, df)[0]


def test_projection():
    v, dv = rows(0), rows(1)
    expected = with_gradient(sphere.project, v.double(), dv.double())
    got = with_gradient(lambda t: kernel.project(t, 1e-12), v.to(DEVICE), dv.to(DEVICE))
    for ours, theirs in zip(got, expected, strict=True):
        torch.testing.assert_close(ours.cpu().double(), theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("unit", [True, False])
@pytest.mark.parametrize("old", [None, torch.tensor([True, False, True, True, False, True])])
def test_displacement(unit: bool, old: Tensor | None):
    h, n, df = rows(0), rows(1).roll(1, 0), rows(2).roll(2, 0)
    n[4] = -h[4] / sphere.norm(h[4])
    expected = with_gradient(lambda t: sphere.displace(t, n.double(), 1.5, unit, old), h.double(), df.double())
    moved = None if old is None else old.to(DEVICE)
    got = with_gradient(
        lambda t: kernel.displace(t, n.to(DEVICE), 1.5, unit, moved, 1e-12), h.to(DEVICE), df.to(DEVICE)
    )
    for ours, theirs in zip(got, expected, strict=True):
        torch.testing.assert_close(ours.cpu().double(), theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_rounded_once(dtype: torch.dtype):
    h, n, df = (rows(seed).to(dtype) for seed in range(3))
    for ours, plain in (
        (lambda t: kernel.project(t, 1e-12), sphere.project),
        (
            lambda t: kernel.displace(t, n.to(DEVICE), 1.5, True, None, 1e-12),
            lambda t: sphere.displace(t, n.double(), 1.5),
        ),
    ):
        expected = with_gradient(plain, h.double(), df.double())
        for got, exact in zip(with_gradient(ours, h.to(DEVICE), df.to(DEVICE)), expected, strict=True):
            assert got.dtype == dtype
            # The interpreter rounds towards zero, a GPU to the nearest.
            torch.testing.assert_close(got.cpu().double(), exact, rtol=1.01 * torch.finfo(dtype).eps, atol=1e-4)


def test_a_second_derivative_is_refused_not_wrong():
    v = rows(0).to(DEVICE).requires_grad_()
    (gradient,) = torch.autograd.grad((kernel.project(v, 1e-12) ** 3).sum(), v, create_graph=True)
    with pytest.raises(RuntimeError, match="not have been used"):
        torch.autograd.grad(gradient.sum(), v)
