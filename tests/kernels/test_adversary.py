"""The kernels of WAP's inner step against the plain operations and autograd."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from moca import kernels
from moca.perturb.rows import old_rows_in_turn
from tests.kernels.devices import kernel_device

DEVICE = kernel_device()
if DEVICE:
    from moca.kernels import adversary
    from moca.kernels.adversary import rows_in_turn, slope

pytestmark = pytest.mark.skipif(DEVICE is None, reason="needs triton")


@settings(deadline=None, derandomize=True, max_examples=40)
@given(st.lists(st.booleans(), min_size=1, max_size=40))
def test_rows_like_the_plain_ones(marks: list[bool]) -> None:
    old = torch.tensor(marks)
    rows, weights = rows_in_turn(old.to(DEVICE))
    plain_rows, plain_weights = old_rows_in_turn(old, old)
    assert torch.equal(rows.cpu(), plain_rows)
    torch.testing.assert_close(weights.cpu(), plain_weights)


@pytest.mark.parametrize("too_many", [0, 1])
def test_large_batches_take_the_plain_operations(too_many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    old = torch.arange(adversary.MOST_ROWS + too_many) % 3 == 1
    expected, calls = old_rows_in_turn(old, old), []
    monkeypatch.setattr(adversary, "rows_in_turn", lambda old: calls.append(old) or rows_in_turn(old))
    monkeypatch.setattr(kernels, "usable", lambda tensor: True)
    rows, weights = old_rows_in_turn(old.to(DEVICE), old.to(DEVICE))
    assert len(calls) == 1 - too_many
    assert torch.equal(rows.cpu(), expected[0])
    torch.testing.assert_close(weights.cpu(), expected[1])


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
