import pytest
import torch
from torch import nn

from moca.models.batch_norm.batches import batches_apart
from moca.models.batch_norm.layer import BatchNorm2d


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("sizes", [(8, 6), (5,), (3, 4, 2), (1, 7)])
def test_one_pass_equals_separate_passes(sizes, layout):
    torch.manual_seed(0)
    ours, theirs = BatchNorm2d(5), nn.BatchNorm2d(5)
    for bn in (ours, theirs):
        nn.init.normal_(bn.weight, generator=torch.Generator().manual_seed(1))
    parts = [3 * torch.randn(n, 5, 4, 4) + n for n in sizes]
    upstream = torch.randn(sum(sizes), 5, 4, 4)
    x = torch.cat(parts).contiguous(memory_format=layout).requires_grad_()
    with batches_apart(sizes):
        out = ours(x)
    (out * upstream).sum().backward()
    leaves = [part.requires_grad_() for part in parts]
    expected = torch.cat([theirs(leaf) for leaf in leaves])
    (expected * upstream).sum().backward()
    close = {"atol": 1e-5, "rtol": 1e-5}
    torch.testing.assert_close(out, expected, **close)
    torch.testing.assert_close(x.grad, torch.cat([leaf.grad for leaf in leaves]), **close)
    torch.testing.assert_close(ours.weight.grad, theirs.weight.grad, **close)
    torch.testing.assert_close(ours.running_mean, theirs.running_mean, **close)
    torch.testing.assert_close(ours.running_var, theirs.running_var, **close)


@pytest.mark.parametrize("momentum", [0.1, 0.01, 0.7, 1.0, 0.0, None])
@pytest.mark.parametrize("updates", [(0,), (1, 1), (0, 1, 1, 1), (1, 0, 0, 1, 1), (), None])
def test_running_statistics_follow_the_updates_in_order(updates, momentum):
    ours, theirs = BatchNorm2d(3, momentum=momentum).double(), nn.BatchNorm2d(3, momentum=momentum).double()
    parts = [torch.randn(6, 3, 2, 2).double(), 2 * torch.randn(4, 3, 2, 2).double() + 1]
    for _ in range(3):
        with batches_apart((6, 4), updates):
            ours(torch.cat(parts))
        for batch in (0, 1) if updates is None else updates:
            theirs(parts[batch])
    torch.testing.assert_close(ours.running_mean, theirs.running_mean, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(ours.running_var, theirs.running_var, rtol=1e-12, atol=1e-12)
    if momentum is None:
        assert ours.num_batches_tracked == theirs.num_batches_tracked


def test_outside_and_in_evaluation_it_is_plain_batchnorm():
    ours, theirs, x = BatchNorm2d(3), nn.BatchNorm2d(3), torch.randn(8, 3, 2, 2)
    assert torch.equal(ours(x), theirs(x))
    ours.eval(), theirs.eval()
    with batches_apart((4, 4)):
        assert torch.equal(ours(x), theirs(x))
    assert torch.equal(ours.running_var, theirs.running_var)


def test_afterwards_what_was_before_holds_again():
    ours, x = BatchNorm2d(3), torch.randn(8, 3, 2, 2)
    with batches_apart((2, 6)):
        apart = ours(x)
        with pytest.raises(ZeroDivisionError), batches_apart((8,)):
            assert not torch.allclose(ours(x), apart, atol=1e-3)
            raise ZeroDivisionError
        assert torch.equal(ours(x), apart)
    assert not torch.allclose(ours(x), apart, atol=1e-3)


def test_batches_that_are_not_in_the_updates_leave_no_trace_in_the_statistics():
    ours, x = BatchNorm2d(3), torch.randn(8, 3, 2, 2)
    with batches_apart((4, 4), ()):
        ours(x)
    assert torch.equal(ours.running_mean, torch.zeros(3))
    assert torch.equal(ours.running_var, torch.ones(3))
