"""LUCIR: directions and margins at chosen angles."""

import math

import pytest
import torch
from torch import nn

from moca import Batch, LinearHead, Model
from moca.learners.lucir import LUCIR


@pytest.fixture
def model():
    """Features are the samples themselves, until the encoder turns; six class vectors, 60 degrees apart."""
    model = Model(nn.Linear(2, 2, bias=False), LinearHead(2, 6))
    with torch.no_grad():
        model.encoder.weight.copy_(torch.eye(2))
        model.head.weight.copy_(torch.stack([2 * at(60 * c) for c in range(6)]))
        model.head.bias.zero_()
    return model


def at(degrees, length=1.0):
    return length * torch.tensor([math.cos(math.radians(degrees)), math.sin(math.radians(degrees))])


def batch(model, labels, degrees, old=None):
    x = torch.stack([at(d, 1.0 + i) for i, d in enumerate(degrees)])
    h = model.encode(x)
    fields = {} if old is None else {"old": torch.tensor(old)}
    return Batch(x=x, y=torch.tensor(labels), features=h, logits=model.classify(h), **fields)


def cos(degrees):
    return math.cos(math.radians(degrees))


@pytest.fixture
def learner(attached):
    """In its second task: 0, 1 and 4 are old, 2 and 3 are new."""
    return lambda *tasks, perturbation=None, **options: attached(
        LUCIR(**options), *(tasks or ((0, 1, 4), (2, 3))), perturbation=perturbation
    )


def test_the_margin_to_the_two_nearest_new_classes(learner, model):
    """An old sample of class 1 at 90 degrees: 30 from its class (60) and from 2 (120), 90 from 3 (180)."""
    losses = learner().losses(batch(model, [2], [120]), batch(model, [1], [90], [True]))
    expected = (0.5 - cos(30) + cos(30)) + max(0, 0.5 - cos(30) + cos(90))
    assert losses["margin"].item() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(("rivals", "margin"), [(1, 0.5), (2, 0.5), (2, 1.5), (9, 1.5)])
def test_margins_by_hand(learner, model, rivals, margin):
    """Only old samples count, with the nearest of the new classes (2 and 3), however many were asked for."""
    one = learner(rivals=rivals, margin=margin, weight=0.7)
    replay = batch(model, [0, 2, 1], [20, 130, 100], [True, False, True])
    total = 0.0
    for own, angle in ((0, 20), (60, 100)):
        new = sorted((cos(120 - angle), cos(180 - angle)), reverse=True)[:rivals]
        total += sum(max(0, margin - cos(own - angle) + c) for c in new)
    losses = one.losses(batch(model, [2, 3], [120, 180]), replay)
    assert losses["margin"].item() == pytest.approx(0.7 * total / 2, abs=1e-5)


def test_directions_are_held_whatever_the_lengths(learner, model):
    """The network has turned by 40 degrees and doubled; three old classes, two new ones."""
    one = learner(lam=2.0)
    with torch.no_grad():
        turn = torch.stack([at(40), at(130)], 1)
        model.encoder.weight.copy_(2 * turn)
    new, replay = batch(model, [2, 3], [10, 50]), batch(model, [0, 1, 2], [70, 0, 5], [True, True, False])
    losses = one.losses(new, replay)
    assert set(losses) == {"new", "replay", "directions", "margin"}
    assert losses["directions"].item() == pytest.approx(2 * math.sqrt(3 / 2) * (1 - cos(40)), rel=1e-5)


def test_one_mean_over_new_and_replayed_samples(learner, model):
    """One of four has turned, by 60 degrees."""
    one = learner(lam=1.0)
    new, replay = batch(model, [2, 3], [10, 50]), batch(model, [0, 1], [70, 0], [True, True])
    new.features = torch.stack([at(70, 3.0), new.features[1]])
    assert one.losses(new, replay)["directions"].item() == pytest.approx(math.sqrt(3 / 2) * 0.5 / 4, rel=1e-5)


def test_the_first_task_is_er(learner, model):
    one = learner((0, 1, 2, 3))
    new, replay = batch(model, [2, 3], [10, 50]), batch(model, [0, 1], [70, 0], [False] * 2)
    losses = one.losses(new, replay)
    assert set(losses) == {"new", "replay"}
    for given, name in ((new, "new"), (replay, "replay")):
        surprise = -model.classify(given.features).log_softmax(1)
        expected = sum(surprise[i, y].item() for i, y in enumerate(given.y)) / 2
        assert losses[name].item() == pytest.approx(expected, rel=1e-5)


def test_a_task_without_new_classes_has_no_rivals(learner, model):
    """Classes that come back count as old."""
    one = learner((0, 1), (1,), lam=2.0)
    losses = one.losses(batch(model, [1], [70]), batch(model, [0, 1], [0, 60], [True, True]))
    assert set(losses) == {"new", "replay", "directions"}
    assert one.less_forget == pytest.approx(2 * math.sqrt(2))


def test_a_task_of_one_class_has_one_rival(learner, model):
    one = learner((0, 1), (2,))
    losses = one.losses(batch(model, [2], [120]), batch(model, [1], [90], [True]))
    assert losses["margin"].item() == pytest.approx(0.5, abs=1e-5)


def test_no_old_sample_no_margin(learner, model):
    losses = learner().losses(batch(model, [2], [120]), batch(model, [3], [90], [False]))
    assert losses["margin"].item() == 0


def test_only_labels_are_perturbed(learner, model, recorder):
    one, plain = learner(perturbation=recorder), learner()
    given = batch(model, [2, 3], [100, 170]), batch(model, [0, 1, 2], [30, 80, 110], [True, True, False])
    moved, unmoved = one.losses(*given), plain.losses(*given)
    assert moved["replay"].item() != pytest.approx(unmoved["replay"].item(), rel=1e-3)
    for name in ("new", "directions", "margin"):
        assert moved[name].item() == pytest.approx(unmoved[name].item(), rel=1e-6)


def test_the_teacher_is_not_taught(learner, model):
    one = learner()
    sum(one.losses(batch(model, [2], [110]), batch(model, [1], [90], [True])).values()).backward()
    assert all(p.grad is None for p in one.teacher.parameters())
    assert model.encoder.weight.grad is not None


def test_a_class_that_comes_back_is_no_rival(learner, model):
    """Class 1 is nearest to the old sample and came again; class 2, at 120 degrees, is the only new one."""
    one = learner((0, 1), (1, 2))
    losses = one.losses(batch(model, [2], [120]), batch(model, [0], [50], [True]))
    assert losses["margin"].item() == pytest.approx(max(0, 0.5 - cos(50) + cos(70)), abs=1e-5)
