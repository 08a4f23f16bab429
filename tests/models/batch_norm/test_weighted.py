"""BatchNorm in which some rows count against torch's on these rows alone."""

import copy

import pytest
import torch
from torch import nn

from moca.models.batch_norm.batches import rows_weighted
from moca.models.batch_norm.foreign import keep_batches_apart
from moca.models.batch_norm.layer import BatchNorm2d
from moca.models.batch_norm.weighted import weighted
from tests.models.batch_norm.test_foreign import KINDS, Patches, assert_same, buffers, layer

ROWS = 7
CLOSE = {"rtol": 1e-10, "atol": 1e-10}
KINDS = KINDS | {"our own": (BatchNorm2d, (3, 2))}


def masks():
    """For every number of rows that count, some choice of them."""
    order = torch.tensor([3, 0, 6, 2, 5, 1, 4])
    return [torch.zeros(ROWS, dtype=torch.bool).index_fill(0, order[:k], True) for k in range(1, ROWS + 1)]


def shares(old):
    return old.double() / old.sum()


# Torch refuses one value a channel.
@pytest.mark.parametrize(
    ("kind", "old"),
    [(kind, old) for kind in KINDS for old in masks() if KINDS[kind][1] or old.sum() > 1],
    ids=lambda it: it if isinstance(it, str) else f"{int(it.sum())} rows",
)
@pytest.mark.parametrize("options", [{}, {"affine": False}, {"track_running_stats": False}, {"eps": 0.1}], ids=str)
def test_like_a_pass_of_the_rows_that_count(kind, options, old):
    kind, shape = KINDS[kind]
    torch.manual_seed(0)
    theirs = layer(kind, options)
    ours, x = keep_batches_apart(copy.deepcopy(theirs)), (3 * torch.randn(ROWS, 5, *shape) + 2).double()
    before = buffers(ours)
    upstream = torch.randn_like(x)
    leaf, some = x.clone().requires_grad_(), x[old].requires_grad_()
    with rows_weighted(shares(old)):
        out = ours(leaf)
    expected = theirs(some)
    got = torch.autograd.grad(out, [leaf, *ours.parameters()], upstream)
    wanted = torch.autograd.grad(expected, [some, *theirs.parameters()], upstream[old])
    torch.testing.assert_close(out[old], expected, **CLOSE)
    torch.testing.assert_close(got[0][old], wanted[0], **CLOSE)
    assert not got[0][~old].any()
    assert kind.__name__ == "OfItsOwn" or not out[~old].any()
    for mine, peer in zip(got[1:], wanted[1:], strict=True):
        torch.testing.assert_close(mine, peer, **CLOSE)
    assert_same(buffers(ours), before, {"rtol": 0, "atol": 0})


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_do_not_count_change_nothing(kind):
    torch.manual_seed(0)
    old = masks()[3]
    ours = keep_batches_apart(layer(KINDS[kind][0], {}))
    x = torch.randn(ROWS, 5, *KINDS[kind][1]).double()
    other, results = x.clone(), []
    other[~old] = 1e8 * torch.randn_like(other[~old])
    for given in (x, other):
        given.requires_grad_()
        with rows_weighted(shares(old)):
            out = ours(given)
        results.append([out[old], *torch.autograd.grad(out[old].square().sum(), [given, *ours.parameters()])])
    for first, second in zip(*results, strict=True):
        assert torch.equal(first, second)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("old", [torch.zeros(4).bool(), torch.tensor([False, True, False, False])], ids=["none", "one"])
def test_finite_where_nothing_or_one_value_counts(old, dtype):
    x = torch.randn(4, 3, 1, 1).to(dtype).requires_grad_()
    ours = BatchNorm2d(3).to(dtype)
    with rows_weighted(old.float()):
        out = ours(x)
    gradients = torch.autograd.grad(out.sum(), [x, ours.weight, ours.bias])
    assert out.dtype == dtype
    assert out.isfinite().all()
    assert all(g.isfinite().all() for g in gradients)
    assert old.any() or not any(g.any() for g in gradients)


def test_any_weights_against_the_formula_and_by_finite_differences():
    torch.manual_seed(0)
    rows = torch.tensor([0.5, 0.0, 0.2, 0.3]).double()
    x, weight, bias = torch.randn(4, 3, 2, 2).double(), torch.randn(3).double(), torch.randn(3).double()
    y = weighted(x, weight, bias, 1e-3, rows)
    for c in range(3):
        mean = sum(rows[i] * x[i, c].mean() for i in range(4))
        variance = sum(rows[i] * (x[i, c] - mean).square().mean() for i in range(4))
        expected = weight[c] * (x[:, c] - mean) / (variance + 1e-3).sqrt() + bias[c]
        torch.testing.assert_close(y[[0, 2, 3], c], expected[[0, 2, 3]])
    leaves = [t.requires_grad_() for t in (x, weight, bias)]
    assert torch.autograd.gradcheck(lambda *t: weighted(*t, 1e-3, rows), leaves)


def test_images_cut_up_into_samples_of_their_own():
    theirs, x = Patches().double(), torch.randn(ROWS, 1, 6, 6).double()
    ours = keep_batches_apart(copy.deepcopy(theirs))
    for old in masks():
        with rows_weighted(shares(old)):
            got = ours(x)[old]
        torch.testing.assert_close(got, theirs(x[old]), **CLOSE)


def test_in_bfloat16_statistics_are_those_of_float32():
    x, old = (torch.randn(32, 3, 8, 8) + 5).bfloat16(), torch.arange(32) % 3 > 0
    with rows_weighted(shares(old).float()):
        got = BatchNorm2d(3)(x)
    assert got.dtype == torch.bfloat16
    torch.testing.assert_close(got[old].float(), nn.BatchNorm2d(3)(x[old].float()), rtol=1e-2, atol=1e-2)


def test_a_second_derivative_is_refused_not_wrong():
    x = torch.randn(4, 3, 2, 2).requires_grad_()
    with rows_weighted(torch.full((4,), 0.25)):
        y = BatchNorm2d(3)(x)
    (gradient,) = torch.autograd.grad(y.pow(3).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="not have been used"):
        torch.autograd.grad(gradient.sum(), x)
