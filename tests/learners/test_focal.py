"""The focal loss: its formula sample by sample, and its limits."""

import math

import pytest
import torch

from moca.learners.focal import Focal


@pytest.fixture
def learner(attached):
    return lambda gamma=2.0, **given: attached(Focal(gamma=gamma), (0, 1), (2, 3), **given)


def focal(model, features, labels, gamma):
    """-(1 - p)^gamma log p, one sample at a time."""
    terms = []
    for h, y in zip(features, labels.tolist(), strict=True):
        logits = model.classify(h).tolist()
        p = math.exp(logits[y]) / sum(math.exp(z) for z in logits)
        terms.append(-((1 - p) ** gamma) * math.log(p))
    return sum(terms) / len(terms)


@pytest.mark.parametrize("gamma", [0.5, 2.0, 3.0])
def test_both_terms(learner, model, make_batch, gamma):
    new, replay = make_batch([2, 3, 3]), make_batch([0, 1, 2, 0, 3], seed=1)
    losses = learner(gamma).losses(new, replay)
    assert set(losses) == {"new", "replay"}
    assert losses["new"].item() == pytest.approx(focal(model, new.features, new.y, gamma), rel=1e-5)
    assert losses["replay"].item() == pytest.approx(focal(model, replay.features, replay.y, gamma), rel=1e-5)


def test_a_gamma_of_zero_is_er(learner, make_batch, slow):
    new, replay = make_batch([2, 3, 3]), make_batch([0, 1, 2, 0], seed=1)
    losses = learner(0.0).losses(new, replay)
    assert losses["new"].item() == pytest.approx(slow.cross_entropy(new.features, new.y), rel=1e-5)
    assert losses["replay"].item() == pytest.approx(slow.cross_entropy(replay.features, replay.y), rel=1e-5)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, 2.0])
def test_samples_that_are_sure_have_no_weight_and_no_bad_slope(learner, gamma):
    """p = 1 in float32: the loss is 0, its slope too; a power below 1 has an infinite slope there."""
    logits = torch.tensor([[100.0, 0.0], [0.0, 100.0]], requires_grad=True)
    loss = learner(gamma)._focal(logits, torch.tensor([0, 1]))
    loss.backward()
    assert loss.item() == 0
    assert torch.isfinite(logits.grad).all() and logits.grad.abs().max() < 1e-6


def test_replayed_samples_are_perturbed(learner, model, make_batch, recorder):
    new, replay = make_batch([2, 3]), make_batch([0, 2, 1], seed=1, old=[True, False, True])
    losses = learner(perturbation=recorder).losses(new, replay)
    moved = replay.features.detach() + torch.tensor([[1.0], [0.0], [1.0]])
    assert losses["replay"].item() == pytest.approx(focal(model, moved, replay.y, 2.0), rel=1e-5)
    assert losses["new"].item() == pytest.approx(focal(model, new.features, new.y, 2.0), rel=1e-5)
