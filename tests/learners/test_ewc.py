"""EWC: Fisher information in closed form, the pull on each weight, what later tasks add."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from moca import Batch, MocaError, Model
from moca.learners.ewc import EWC
from tests.learners.conftest import task


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Model(nn.Identity(), nn.Linear(3, 6))


def samples(labels, seed=0):
    image = torch.randn(len(labels), 3, generator=torch.Generator().manual_seed(seed))
    return Batch(image=image, y=torch.tensor(labels))


def fisher(model, given):
    """Of a linear softmax classifier: the mean of (p_c - [y = c])^2 x_k^2, and of (p_c - [y = c])^2 for the bias."""
    error = model.head(given.image).softmax(1) - F.one_hot(given.y, 6)
    return {
        "head.weight": (error.square().unsqueeze(2) * given.image.square().unsqueeze(1)).mean(0),
        "head.bias": error.square().mean(0),
    }


def assert_close(ours, theirs):
    assert ours.keys() == theirs.keys()
    for name in ours:
        torch.testing.assert_close(ours[name], theirs[name].detach(), atol=1e-7, rtol=1e-4)


@pytest.mark.parametrize("gamma", [0.0, 0.3, 1.0])
def test_the_information_of_a_linear_classifier(attached, model, gamma):
    """More samples than are passed at once; what earlier tasks told counts gamma."""
    ewc = attached(EWC(gamma=gamma), (0, 1))
    first, second = samples([0, 1, 1, 0, 1] * 110), samples([2, 3, 3], seed=1)
    one = fisher(model, first)
    ewc.end_task(first)
    assert_close(ewc.fisher, one)
    with torch.no_grad():
        model.head.weight += 0.1
    ewc.begin_task(task(2, 3))
    two = fisher(model, second)
    ewc.end_task(second)
    assert_close(ewc.fisher, {name: gamma * one[name] + two[name] for name in one})
    assert ewc.anchors["head.weight"].equal(model.head.weight)


def test_the_pull_grows_with_the_square_of_the_way_and_with_what_mattered(attached, make_batch, model):
    ewc = attached(EWC(lam=4.0), (0, 1))
    ewc.end_task(samples([0, 1, 1]))
    ewc.begin_task(task(2, 3))
    new = make_batch([2, 3])
    assert ewc.losses(new)["pull"].item() == 0
    with torch.no_grad():
        model.head.weight[1, 2] += 0.5
        model.head.bias[3] -= 0.2
    losses = ewc.losses(new)
    expected = 2 * (0.25 * ewc.fisher["head.weight"][1, 2] + 0.04 * ewc.fisher["head.bias"][3])
    torch.testing.assert_close(losses["pull"], expected)
    (slope,) = torch.autograd.grad(losses["pull"], [model.head.weight])
    assert slope.count_nonzero() == 1
    torch.testing.assert_close(slope[1, 2], 4 * ewc.fisher["head.weight"][1, 2] * 0.5)


def test_the_first_task_is_plain_training(attached, make_batch, slow):
    ewc, new = attached(EWC(), (2, 3)), make_batch([2, 3, 3])
    losses = ewc.losses(new)
    assert list(losses) == ["new"]
    assert losses["new"].item() == pytest.approx(slow.cross_entropy(new.features, new.y), rel=1e-5)


def test_weights_that_are_not_learnt_are_not_held(attached, model):
    model.head.bias.requires_grad_(False)
    ewc = attached(EWC(), (0, 1))
    ewc.end_task(samples([0, 1]))
    assert set(ewc.fisher) == set(ewc.anchors) == {"head.weight"}


def test_a_large_pull_holds_the_weights(attached, make_batch, model):
    """Down to where the two forces balance: the larger lambda, the nearer to the anchor."""
    start, ways = {name: value.clone() for name, value in model.state_dict().items()}, []
    for lam in (0.0, 1.0, 10.0):
        model.load_state_dict(start)
        ewc = attached(EWC(lam=lam), (0, 1))
        ewc.end_task(samples([0, 1, 1]))
        ewc.begin_task(task(2, 3))
        optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(50):
            ewc.update(ewc.losses(make_batch([2, 3])), optimiser)
        ways.append(sum((ewc.fisher[n] * (p - start[n]).square()).sum().item() for n, p in model.named_parameters()))
    assert ways[0] > 2 * ways[1] > 4 * ways[2] > 0


def test_it_keeps_no_samples_and_takes_no_perturbation(make_dataset):
    from moca.settings import Run, validate

    assert not EWC().has_memory
    with pytest.raises(MocaError, match="replays nothing"):
        validate(Run, {"learner": "ewc", "perturb": "gaussian"})


@pytest.mark.parametrize("options", [{"lam": -1}, {"gamma": 1.5}])
def test_bad_options(options):
    with pytest.raises(MocaError):
        EWC(**options)
