import pytest
import torch
from torch import nn

from moca.models.norm import BatchNorm2d, batches_apart

CPU = torch.device("cpu")


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
    with batches_apart(sizes, None, CPU):
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


@pytest.mark.parametrize("updates", [(0,), (1, 1), (0, 1, 1, 0), (1, 0, 0, 1, 1), ()])
def test_running_statistics_follow_the_updates_in_order(updates):
    ours, theirs = BatchNorm2d(3), nn.BatchNorm2d(3)
    parts = [torch.randn(6, 3, 2, 2), 2 * torch.randn(4, 3, 2, 2) + 1]
    with batches_apart((6, 4), updates, CPU):
        ours(torch.cat(parts))
    for batch in updates:
        theirs(parts[batch])
    torch.testing.assert_close(ours.running_mean, theirs.running_mean)
    torch.testing.assert_close(ours.running_var, theirs.running_var)


def test_outside_and_in_evaluation_it_is_plain_batchnorm():
    ours, theirs, x = BatchNorm2d(3), nn.BatchNorm2d(3), torch.randn(8, 3, 2, 2)
    assert torch.equal(ours(x), theirs(x))
    ours.eval(), theirs.eval()
    with batches_apart((4, 4), None, CPU):
        assert torch.equal(ours(x), theirs(x))
    assert torch.equal(ours.running_var, theirs.running_var)


def test_what_is_kept_belongs_to_the_caller_and_is_used_again():
    mine, others = {}, {}
    x = torch.randn(8, 3, 2, 2)
    for kept in (mine, others, None):
        with batches_apart((4, 4), None, CPU, kept):
            BatchNorm2d(3)(x)
    ((key, tensor),) = mine.items()
    assert others[key] is not tensor
    with batches_apart((4, 4), None, CPU, mine):
        BatchNorm2d(3)(x)
    assert mine[key] is tensor
    with batches_apart((8,), (), CPU, mine):
        BatchNorm2d(3)(x)
    assert list(mine) == [key], "statistics that stay take nothing"
