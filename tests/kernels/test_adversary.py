"""The kernel of WAP's inner step against autograd."""

import pytest
import torch
import torch.nn.functional as F

from moca import Batch, kernels
from tests.kernels.devices import kernel_device
from tests.perturb.helpers import make, network, scene
from tests.perturb.test_wap import mask, naive

DEVICE = kernel_device()
if DEVICE:
    from moca.kernels.adversary import slope

pytestmark = pytest.mark.skipif(DEVICE is None, reason="needs triton")


@pytest.mark.parametrize(("rows", "classes"), [(1, 2), (5, 10), (32, 100), (3, 1000)])
def test_the_slope_is_the_gradient_of_the_loss(rows: int, classes: int) -> None:
    generator = torch.Generator().manual_seed(rows)
    logits = (5 * torch.randn(rows, classes, generator=generator)).requires_grad_()
    y = torch.randint(classes, (rows,), generator=generator)
    weights = torch.rand(rows, generator=generator)
    loss = (F.cross_entropy(logits, y, reduction="none") * weights).sum()
    (expected,) = torch.autograd.grad(loss, logits)
    got = slope(*(t.detach().to(DEVICE) for t in (logits, y, weights)))
    torch.testing.assert_close(got.cpu(), expected, rtol=1e-5, atol=1e-6)


def test_what_is_not_a_number_stays_so() -> None:
    logits = torch.zeros(2, 3)
    logits[1, 2] = torch.nan
    got = slope(*(t.to(DEVICE) for t in (logits, torch.tensor([0, 1]), torch.ones(2)))).cpu()
    assert got[0].isfinite().all()
    assert got[1].isnan().all()


@pytest.mark.parametrize("rows", [(3,), (0, 5, 6), tuple(range(7)), tuple(range(8))], ids=len)
def test_the_direction_is_that_of_a_copied_network_on_the_old_rows(rows, monkeypatch):
    model = network("convnet")
    replay, new = scene(model)
    expected = naive(model, replay, new, mask(*rows), step=0.2)
    model = model.to(DEVICE)
    replay = Batch(x=replay.x.to(DEVICE), old=mask(*rows).to(DEVICE))
    new = Batch(y=new.y.to(DEVICE))
    monkeypatch.setattr(kernels, "usable", lambda x: True)
    n = make("wap:step_size=2", model).direction(replay, new)
    loose = 10 if DEVICE.type == "cuda" else 1  # torch's convolutions round to TensorFloat-32 there
    torch.testing.assert_close(n.detach().cpu(), expected, rtol=1e-3 * loose, atol=1e-4 * loose)
