"""Any BatchNorm in one pass of several batches against the untouched layer in one pass each."""

import copy
import pickle

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call

from moca import MocaError
from moca.models import CosineHead, Model, auxiliary_encode
from moca.models.auxiliary import _copies
from moca.models.batch_norm.batches import batches_apart
from moca.models.batch_norm.foreign import keep_batches_apart, obeys
from moca.models.batch_norm.layer import BatchNorm2d


class ThenReLU(nn.BatchNorm2d):
    def forward(self, x):
        return super().forward(x).relu()


class OfItsOwn(nn.BatchNorm2d):
    """One that repeats torch's forward pass with an activation in it, as some libraries' do."""

    def forward(self, x, twice=2):
        factor = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            factor = 1.0 / float(self.num_batches_tracked) if self.momentum is None else factor
        keeps = not self.training or self.track_running_stats
        mean, var = (self.running_mean, self.running_var) if keeps else (None, None)
        fresh = self.training or self.running_mean is None
        return F.silu(F.batch_norm(twice * x, mean, var, self.weight, self.bias, fresh, factor, self.eps))


KINDS = {
    "1d": (nn.BatchNorm1d, ()),
    "1d with length": (nn.BatchNorm1d, (4,)),
    "2d": (nn.BatchNorm2d, (3, 2)),
    "3d": (nn.BatchNorm3d, (2, 1, 3)),
    "sync": (nn.SyncBatchNorm, (3, 2)),
    "subclass": (ThenReLU, (3, 2)),
    "of its own": (OfItsOwn, (3, 2)),
}
OPTIONS = [
    {},
    {"momentum": 0.3},
    {"momentum": None},
    {"affine": False},
    {"track_running_stats": False},
    {"eps": 0.1, "momentum": 1.0},
]
SIZES = (6, 4, 3)


def layer(kind, options, dtype=torch.float64):
    made = kind(5, **options).to(dtype)
    if made.affine:
        nn.init.normal_(made.weight)
        nn.init.normal_(made.bias)
    return made


def parts(shape, dtype=torch.float64, sizes=SIZES):
    return [((i + 1) * torch.randn(n, 5, *shape) + i).to(dtype) for i, n in enumerate(sizes)]


def buffers(module):
    return {k: v.clone() for k, v in module.named_buffers() if "running" in k}


def assert_same(ours, theirs, close):
    assert ours.keys() == theirs.keys()
    for name in ours:
        torch.testing.assert_close(ours[name], theirs[name], msg=lambda m, name=name: f"{name}: {m}", **close)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_outputs_and_gradients_are_those_of_separate_passes(kind, options, dtype):
    torch.manual_seed(0)
    theirs = layer(KINDS[kind][0], options, dtype)
    ours = keep_batches_apart(copy.deepcopy(theirs))
    given = parts(KINDS[kind][1], dtype)
    x, leaves = torch.cat(given).requires_grad_(), [part.requires_grad_() for part in given]
    with batches_apart(SIZES):
        out = ours(x)
    expected = torch.cat([theirs(leaf) for leaf in leaves])
    upstream = torch.randn_like(out)
    got = torch.autograd.grad(out, [x, *ours.parameters()], upstream)
    wanted = torch.autograd.grad(expected, [*leaves, *theirs.parameters()], upstream)
    wanted = [torch.cat(wanted[: len(leaves)]), *wanted[len(leaves) :]]
    close = {"rtol": 1e-12, "atol": 1e-12} if dtype == torch.float64 else {"rtol": 1e-4, "atol": 1e-5}
    torch.testing.assert_close(out, expected, **close)
    for mine, peer in zip(got, wanted, strict=True):
        torch.testing.assert_close(mine, peer, **close)
    close = close if dtype == torch.float64 else {"rtol": 1e-6, "atol": 1e-6}
    assert_same(buffers(ours), buffers(theirs), close)


@pytest.mark.parametrize("updates", [(0, 1, 1, 1), (0, 0, 1, 0, 2), (2,), (), (1, 2, 0)])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_running_statistics_follow_the_updates_in_order(kind, options, updates):
    torch.manual_seed(0)
    theirs = layer(KINDS[kind][0], options)
    ours, given = keep_batches_apart(copy.deepcopy(theirs)), parts(KINDS[kind][1])
    for _ in range(2):
        with batches_apart(SIZES, updates):
            ours(torch.cat(given))
        for number in updates:
            theirs(given[number])
    assert_same(buffers(ours), buffers(theirs), {"rtol": 1e-12, "atol": 1e-12})


@pytest.mark.parametrize("options", [{}, {"track_running_stats": False}], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_outside_and_in_evaluation_it_is_what_it_was(kind, options):
    theirs = layer(KINDS[kind][0], options, torch.float32)
    ours, given = keep_batches_apart(copy.deepcopy(theirs)), parts(KINDS[kind][1], torch.float32)
    x = torch.cat(given)
    assert torch.equal(ours(x), theirs(x))
    assert_same(dict(ours.state_dict()), dict(theirs.state_dict()), {"rtol": 0, "atol": 0})
    ours.eval(), theirs.eval()
    with batches_apart(SIZES):
        got = ours(x)
    # Without running statistics those of the batch are used in evaluation, too, and batches must stay apart.
    expected = theirs(x) if theirs.track_running_stats else torch.cat([theirs(part) for part in given])
    torch.testing.assert_close(got, expected, rtol=1e-6, atol=1e-6)
    assert ours.train()(x).equal(theirs.train()(x))


def encoder():
    """BatchNorm of two kinds, and layers that need nothing."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.GroupNorm(2, 6), nn.InstanceNorm2d(6),
        nn.Flatten(), nn.Linear(6 * 16, 10), nn.Sequential(nn.BatchNorm1d(10, momentum=None)), nn.LayerNorm(10),
    ).double()  # fmt: skip


def images(sizes=SIZES):
    return [((i + 1) * torch.randn(n, 1, 6, 6) + i).double() for i, n in enumerate(sizes)]


def apart(module, given, updates=None):
    with batches_apart([len(part) for part in given], updates):
        return module(torch.cat(given))


CLOSE = {"rtol": 1e-10, "atol": 1e-10}


@pytest.mark.parametrize("through", ["itself", "deepcopy", "pickle", "twice", "state"])
def test_a_whole_encoder_however_it_was_passed_on(through):
    torch.manual_seed(0)
    theirs, given = encoder(), images()
    ours = keep_batches_apart(copy.deepcopy(theirs))
    assert list(ours.state_dict()) == list(theirs.state_dict())
    if through == "deepcopy":
        ours = copy.deepcopy(ours)
    elif through == "pickle":
        ours = pickle.loads(pickle.dumps(ours))
    elif through == "twice":
        before = [type(m) for m in ours.modules()]
        assert keep_batches_apart(ours) is ours
        assert [type(m) for m in ours.modules()] == before
    elif through == "state":
        ours = keep_batches_apart(encoder())
        ours.load_state_dict(theirs.state_dict())
    torch.testing.assert_close(apart(ours, given), torch.cat([theirs(part) for part in given]), **CLOSE)
    assert_same(buffers(ours), buffers(theirs), CLOSE)


def test_training_a_copy_leaves_the_other_alone():
    ours, given = keep_batches_apart(encoder()), images()
    before, twin = copy.deepcopy(ours.state_dict()), copy.deepcopy(ours)
    apart(twin, given).sum().backward()
    torch.optim.SGD(twin.parameters(), lr=0.1).step()
    assert_same(dict(ours.state_dict()), before, {"rtol": 0, "atol": 0})
    assert all(p.grad is None for p in ours.parameters())
    assert not torch.equal(twin[1].running_mean, ours[1].running_mean)


def test_other_tensors_by_functional_call():
    torch.manual_seed(0)
    ours, given = keep_batches_apart(encoder()), images()
    before, other = copy.deepcopy(ours.state_dict()), encoder()
    tensors = dict(other.named_parameters()) | dict(other.named_buffers())
    theirs = copy.deepcopy(other)
    with batches_apart(SIZES):
        got = functional_call(ours, tensors, (torch.cat(given),))
    torch.testing.assert_close(got, torch.cat([theirs(part) for part in given]), **CLOSE)
    assert_same(dict(ours.state_dict()), before, {"rtol": 0, "atol": 0})
    assert_same(buffers(other), buffers(theirs), CLOSE)


def test_an_error_inside_leaves_the_layer_as_it_was():
    class Fails(OfItsOwn):
        def forward(self, x):
            super().forward(x)
            raise ZeroDivisionError

    ours = keep_batches_apart(Fails(5))
    with pytest.raises(ZeroDivisionError), batches_apart((2, 2)):
        ours(torch.randn(4, 5, 2, 2))
    assert ours.num_batches_tracked == 0
    assert list(ours.state_dict()) == list(OfItsOwn(5).state_dict())


class Patches(nn.Module):
    """Cuts each image into four, as samples of their own."""

    def __init__(self):
        super().__init__()
        self.norm, self.linear = nn.BatchNorm2d(1), nn.Linear(9, 4)

    def forward(self, x):
        patches = F.unfold(x, 3, stride=3).transpose(1, 2).reshape(-1, 1, 3, 3)
        return self.linear(self.norm(patches).flatten(1)).view(len(x), -1)


def test_images_cut_up_into_samples_of_their_own():
    theirs, given = Patches().double(), images()
    ours = keep_batches_apart(copy.deepcopy(theirs))
    got = apart(ours, given, (0, 1, 1))
    torch.testing.assert_close(got, torch.cat([copy.deepcopy(theirs)(part) for part in given]), **CLOSE)
    for number in (0, 1, 1):
        theirs(given[number])
    assert_same(buffers(ours), buffers(theirs), CLOSE)


@pytest.mark.parametrize("rows", [12, 14, 5, 0])
def test_rows_that_are_no_multiple_are_refused(rows):
    for norm in (keep_batches_apart(nn.BatchNorm1d(5)), BatchNorm2d(5)):
        shape = (rows, 5) if isinstance(norm, nn.BatchNorm1d) else (rows, 5, 2, 2)
        with (
            pytest.raises(MocaError, match=f"{rows} rows come to it, no multiple of 13") as refusal,
            batches_apart(SIZES),
        ):
            norm(torch.randn(shape))
        assert "\n" not in str(refusal.value)


def test_a_layer_that_does_not_know_its_size_is_refused():
    lazy = nn.Sequential(nn.LazyBatchNorm1d())
    with pytest.raises(MocaError, match="run one batch through the encoder first: its layer '0'"):
        keep_batches_apart(lazy)
    lazy(torch.randn(3, 4))
    assert obeys(keep_batches_apart(lazy)[0])


def test_one_sample_alone_is_no_error():
    """Torch refuses a batch of one value a channel; new samples of a stream may come alone."""
    ours = keep_batches_apart(nn.BatchNorm1d(5))
    out = apart(ours, [torch.randn(1, 5), torch.randn(3, 5)])
    assert out.isfinite().all()
    assert ours.running_var.isfinite().all()
    torch.testing.assert_close(out[0], ours.bias.detach(), rtol=0, atol=1e-3)


def test_an_auxiliary_pass_leaves_the_statistics_alone_and_copies_none_of_them():
    torch.manual_seed(0)
    own = nn.Sequential(OfItsOwn(1), *encoder().float())
    model = Model(keep_batches_apart(own), CosineHead(10, 3))
    x = torch.cat(images()).float()
    before, peer = copy.deepcopy(model.state_dict()), copy.deepcopy(model)
    assert _copies(model.encoder) == {}
    torch.testing.assert_close(auxiliary_encode(model, x), peer.encode(x))
    assert_same(dict(model.state_dict()), dict(before), {"rtol": 0, "atol": 0})


def test_further_arguments_reach_the_layer():
    theirs, given = layer(OfItsOwn, {"eps": 1.0}), parts((3, 2))
    ours = keep_batches_apart(copy.deepcopy(theirs))
    with batches_apart(SIZES):
        out = ours(torch.cat(given), twice=5)
    torch.testing.assert_close(out, torch.cat([theirs(part, 5) for part in given]), **CLOSE)
    assert not torch.allclose(theirs(given[0], 5), theirs(given[0]), atol=1e-3)


def test_what_else_a_layer_counts_is_left_alone_by_an_auxiliary_pass():
    class Counts(nn.BatchNorm2d):
        def __init__(self, features):
            super().__init__(features)
            self.register_buffer("passes", torch.zeros(()))

        def forward(self, x):
            self.passes.add_(1)
            return super().forward(x)

    model = Model(keep_batches_apart(nn.Sequential(Counts(1), *encoder().float())), CosineHead(10, 3))
    auxiliary_encode(model, torch.cat(images()).float())
    assert model.encoder[0].passes == 0
    model.encode(torch.cat(images()).float())
    assert model.encoder[0].passes == 1


def test_buffers_of_other_layers_are_copied_for_an_auxiliary_pass():
    other = nn.Sequential(nn.InstanceNorm2d(1, track_running_stats=True), *encoder().float())
    model = Model(keep_batches_apart(other), CosineHead(10, 3))
    before = copy.deepcopy(model.state_dict())
    assert set(_copies(model.encoder)) == {"0.running_mean", "0.running_var", "0.num_batches_tracked"}
    auxiliary_encode(model, torch.cat(images()).float())
    assert_same(dict(model.state_dict()), dict(before), {"rtol": 0, "atol": 0})
