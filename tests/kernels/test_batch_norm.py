"""The kernels against plain BatchNorm of each batch on its own: values, gradients and running statistics."""

import copy
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import moca.kernels
from moca.models.batch_norm.batches import batches_apart, rows_weighted
from moca.models.batch_norm.foreign import keep_batches_apart
from tests.kernels.devices import kernel_device

DEVICE = kernel_device()
if DEVICE:
    from moca.kernels import batch_norm as kernels
    from moca.kernels.batch_norm import Rows, Statistics, batch_norm

pytestmark = pytest.mark.skipif(DEVICE is None, reason="needs triton")


def image(*shape: int, seed: int = 0, mean: float = 0.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    values = mean + torch.randn(shape, generator=generator, dtype=torch.float64)
    return values.float().to(DEVICE).contiguous(memory_format=torch.channels_last)


def plain(x: Tensor, norm: nn.BatchNorm2d, sizes: list[int], residual: Tensor | None, relu: bool) -> Tensor:
    """One pass a batch through torch's own layer."""
    y = torch.cat([norm(part) for part in x.split(sizes)])
    y = y if residual is None else y + residual
    return F.relu(y) if relu else y


def shares(batches: int) -> list[float]:
    """What one update a batch, with momentum 0.1, comes to."""
    return [0.9**batches] + [0.1 * 0.9 ** (batches - 1 - i) for i in range(batches)]


USUAL, MANY_TILES = {}, {"_PROGRAMS": 8, "_TILE_ROWS": 4, "_TILE_CHANNELS": 16}
"""Shared out as usual, where each program has one tile of these small images, or so that each has many."""
WAYS = [(False, False), (False, True), (True, True), (True, False)]
"""Whether a residual is added, and whether a ReLU follows."""


def cases(shapes: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    """Each shape in each way as usual; with many tiles, which take long to interpret, each shape in one way."""
    usual = [(USUAL, *shape, *way) for shape in shapes for way in WAYS]
    return usual + [(MANY_TILES, *shape, *WAYS[turn % 4]) for turn, shape in enumerate(shapes)]


@pytest.fixture
def shared_out(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, int]], None]:
    """Shares the work out among programs in one of these ways."""
    return lambda work: [monkeypatch.setattr(kernels, name, value) for name, value in work.items()]


@pytest.mark.parametrize(
    ("work", "channels", "side", "sizes", "adds", "relu"),
    cases([(36, 3, [4, 4]), (20, 4, [3, 5]), (5, 3, [4]), (50, 2, [2, 3, 4]), (16, 1, [2, 6])]),
)
def test_like_one_plain_pass_a_batch(shared_out, work, channels, side, sizes, adds, relu) -> None:
    shared_out(work)
    norm = nn.BatchNorm2d(channels).double()
    with torch.no_grad():
        norm.weight.copy_(torch.linspace(-1, 2, channels))
        norm.bias.copy_(torch.linspace(1, -1, channels))
    x = image(sum(sizes), channels, side, side, mean=3.0)
    residual = image(*x.shape, seed=1) if adds else None
    dy = image(*x.shape, seed=2)

    exact = [t.double().cpu().requires_grad_() for t in (x, residual) if t is not None]
    expected = plain(exact[0], norm, sizes, exact[1] if adds else None, relu)
    wanted = torch.autograd.grad(expected, [*exact, norm.weight, norm.bias], dy.double().cpu())

    leaves = [t.clone(memory_format=torch.preserve_format).requires_grad_() for t in (x, residual) if t is not None]
    weight, bias = (p.detach().float().to(DEVICE).requires_grad_() for p in (norm.weight, norm.bias))
    running = Statistics(torch.zeros(channels, device=DEVICE), torch.ones(channels, device=DEVICE), shares(len(sizes)))
    y = batch_norm(leaves[0], weight, bias, sizes, norm.eps, running, leaves[1] if adds else None, relu)
    got = torch.autograd.grad(y, [*leaves, weight, bias], dy)

    torch.testing.assert_close(y.cpu().double(), expected, rtol=1e-5, atol=1e-5)
    for ours, theirs in zip(got, wanted, strict=True):
        torch.testing.assert_close(ours.cpu().double(), theirs, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(running.mean.cpu().double(), norm.running_mean, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(running.var.cpu().double(), norm.running_var, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("adds", [False, True])
def test_channels_without_a_weight_stay_zero_and_change_nothing(adds: bool) -> None:
    own, more = 5, 3

    def outcome(padding: int) -> list[Tensor]:
        x, dy, residual = (F.pad(image(6, own, 3, 3, seed=s), (0, 0, 0, 0, 0, padding)) for s in range(3))
        leaves = [x.requires_grad_(), *(torch.linspace(-1, 2, own, device=DEVICE).requires_grad_() for _ in range(2))]
        running = Statistics(torch.zeros(own, device=DEVICE), torch.ones(own, device=DEVICE), shares(2))
        y = batch_norm(*leaves, [2, 4], 1e-5, running, residual if adds else None, True)
        gradients = torch.autograd.grad(y, leaves, dy)
        for padded in (y, gradients[0]):
            assert not padded[:, own:].any()
        return [y[:, :own], gradients[0][:, :own], *gradients[1:], running.mean, running.var]

    assert all(ours.equal(theirs) for ours, theirs in zip(outcome(more), outcome(0), strict=True))


def rows(old: Tensor) -> "Rows":
    weights = old.float().to(DEVICE) / old.sum().clamp_min(1).to(DEVICE)
    return Rows(weights, weights.argmax())


@pytest.mark.parametrize(
    ("work", "channels", "side", "count", "adds", "relu"),
    cases([(40, 2, 5), (5, 3, 4), (16, 1, 8), (24, 2, 4)]),
)
def test_like_a_plain_pass_of_the_rows_that_count(shared_out, work, channels, side, count, adds, relu) -> None:
    shared_out(work)
    norm = nn.BatchNorm2d(channels).double()
    with torch.no_grad():
        norm.weight.copy_(torch.linspace(-1, 2, channels))
        norm.bias.copy_(torch.linspace(1, -1, channels))
    x, dy = image(count, channels, side, side, mean=3.0), image(count, channels, side, side, seed=2)
    residual = image(*x.shape, seed=1) if adds else None
    old = torch.arange(count) % 3 > 0
    x[~old] = 1e6  # what does not count must not cost precision either
    exact = [t[old].double().cpu().requires_grad_() for t in (x, residual) if t is not None]
    expected = plain(exact[0], norm, [int(old.sum())], exact[1] if adds else None, relu)
    wanted = torch.autograd.grad(expected, [*exact, norm.weight, norm.bias], dy[old].double().cpu())

    leaves = [t.clone(memory_format=torch.preserve_format).requires_grad_() for t in (x, residual) if t is not None]
    weight, bias = (p.detach().float().to(DEVICE).requires_grad_() for p in (norm.weight, norm.bias))
    added = leaves[1] if adds else None
    y = batch_norm(leaves[0], weight, bias, [count], norm.eps, None, added, relu, rows(old))
    got = torch.autograd.grad(y, [*leaves, weight, bias], dy)

    torch.testing.assert_close(y[old].cpu().double(), expected, rtol=1e-5, atol=1e-5)
    others = torch.zeros_like(y[~old]) if residual is None else residual[~old]
    assert torch.equal(y[~old], F.relu(others) if relu else others)
    assert not got[0][~old].any()
    if residual is not None:
        assert torch.equal(got[1][~old], dy[~old] * (residual[~old] > 0) if relu else dy[~old])
    ours = [t[old] if t.shape == x.shape else t for t in got]
    for mine, theirs in zip(ours, wanted, strict=True):
        torch.testing.assert_close(mine.cpu().double(), theirs, rtol=1e-4, atol=1e-4)


def test_what_does_not_count_may_be_no_number() -> None:
    x, ones, zeros = image(4, 3, 2, 2), torch.ones(3, device=DEVICE), torch.zeros(3, device=DEVICE)
    old = torch.tensor([False, True, False, True])
    expected = batch_norm(x, ones, zeros, [4], 1e-5, rows=rows(old))
    x[0], x[2] = torch.nan, torch.inf
    assert torch.equal(batch_norm(x, ones, zeros, [4], 1e-5, rows=rows(old)), expected)
    x[3, 1, 0, 0] = torch.nan
    assert batch_norm(x, ones, zeros, [4], 1e-5, rows=rows(old))[old, 1].isnan().all(), "a divergence must be seen"


@pytest.mark.parametrize("old", [torch.zeros(4), torch.tensor([0, 1, 0, 0])], ids=["none", "one"])
def test_finite_where_nothing_or_one_value_counts(old: Tensor) -> None:
    x = image(4, 3, 1, 1).requires_grad_()
    weight, bias = (torch.ones(3, device=DEVICE).requires_grad_() for _ in range(2))
    y = batch_norm(x, weight, bias, [4], 1e-5, rows=rows(old))
    gradients = torch.autograd.grad(y, [x, weight, bias], torch.ones_like(y))
    assert y.isfinite().all()
    assert all(g.isfinite().all() for g in gradients)
    assert old.any() or not any(g.any() for g in (y, *gradients))


def test_weights_are_for_a_single_batch_that_moves_no_statistics() -> None:
    x, ones = image(4, 3, 2, 2), torch.ones(3, device=DEVICE)
    running = Statistics(ones.clone(), ones.clone(), [0.9, 0.1])
    for sizes, moved in (([2, 2], None), ([4], running)):
        with pytest.raises(ValueError, match="a single batch"):
            batch_norm(x, ones, ones, sizes, 1e-5, moved, rows=rows(torch.ones(4)))


def test_a_far_mean_costs_no_precision() -> None:
    """E[x^2] - E[x]^2 would lose every digit here."""
    x = image(8, 4, 8, 8) + 4096
    y = batch_norm(x, torch.ones(4, device=DEVICE), torch.zeros(4, device=DEVICE), [8], 1e-5)
    expected = F.batch_norm(x.double(), None, None, training=True)
    torch.testing.assert_close(y.double(), expected, rtol=1e-3, atol=1e-3)


def test_shares_say_how_the_running_statistics_move() -> None:
    running = Statistics(*(torch.full((4,), v, device=DEVICE) for v in (0.5, 2.0)), [1.0, 0.0])
    batch_norm(image(4, 4, 3, 3), torch.ones(4, device=DEVICE), torch.zeros(4, device=DEVICE), [4], 1e-5, running)
    assert running.mean.tolist() == [0.5] * 4
    assert running.var.tolist() == [2.0] * 4


@pytest.mark.parametrize("adds", [False, True])
def test_what_is_not_a_number_stays_so(adds: bool) -> None:
    """Through the ReLU too: a divergence must reach the loss."""
    x = image(4, 3, 2, 2)
    x[1, 2, 0, 1] = torch.nan
    residual = torch.zeros_like(x) if adds else None
    y = batch_norm(x, torch.ones(3, device=DEVICE), torch.zeros(3, device=DEVICE), [2, 2], 1e-5, None, residual, True)
    assert y[:2, 2].isnan().all(), "a batch that holds it is lost"
    assert not y[2:].isnan().any(), "the other one is not"
    assert not y[:, :2].isnan().any()


def test_batches_must_make_up_the_rows() -> None:
    with pytest.raises(ValueError, match="must make up the 4 rows"):
        batch_norm(image(4, 3, 2, 2), torch.ones(3, device=DEVICE), torch.zeros(3, device=DEVICE), [2, 1], 1e-5)


def test_bfloat16_keeps_statistics_in_float32() -> None:
    x = image(16, 32, 8, 8, mean=1.0).bfloat16()
    y = batch_norm(x, torch.ones(32, device=DEVICE), torch.zeros(32, device=DEVICE), [8, 8], 1e-5)
    expected = torch.cat([F.batch_norm(part.float(), None, None, training=True) for part in x.split(8)])
    assert y.dtype == torch.bfloat16
    torch.testing.assert_close(y.float(), expected, rtol=1e-2, atol=1e-2)


def test_equal_inputs_give_equal_bits() -> None:
    x, ones, zeros = image(8, 64, 8, 8), torch.ones(64, device=DEVICE), torch.zeros(64, device=DEVICE)
    assert torch.equal(batch_norm(x, ones, zeros, [4, 4], 1e-5), batch_norm(x, ones, zeros, [4, 4], 1e-5))


@pytest.mark.parametrize(
    ("options", "used"),
    [
        ({"momentum": 0.3, "eps": 0.01}, 2),
        ({"momentum": None}, 1),
        ({"affine": False}, 0),
        ({"track_running_stats": False}, 2),
    ],
    ids=str,
)
def test_layers_that_are_not_our_own_take_the_kernels_where_these_can(options, used, monkeypatch):
    """All but averages of all batches, and layers without weights: one pass of batches, one of weighted rows."""
    theirs, x, calls = nn.BatchNorm2d(3, **options).to(DEVICE), image(7, 3, 2, 2), []
    ours, old = keep_batches_apart(copy.deepcopy(theirs)), torch.tensor([0, 1, 1, 0, 1, 0, 1]).bool().to(DEVICE)
    monkeypatch.setattr(moca.kernels, "usable", lambda x: True)
    monkeypatch.setattr(kernels, "batch_norm", lambda *args: calls.append(args) or batch_norm(*args))
    with batches_apart((4, 3), (0, 1, 1)):
        y = ours(x)
    with rows_weighted(old / old.sum()):
        some = ours(x)[old]
    assert len(calls) == used
    close = {"rtol": 1e-5, "atol": 1e-5}
    torch.testing.assert_close(y, torch.cat([copy.deepcopy(theirs)(part) for part in x.split((4, 3))]), **close)
    torch.testing.assert_close(some, copy.deepcopy(theirs)(x[old]), **close)
    for number in (0, 1, 1):
        theirs(x.split((4, 3))[number])
    for name in ("running_mean", "running_var"):
        torch.testing.assert_close(getattr(ours, name), getattr(theirs, name), **close)
