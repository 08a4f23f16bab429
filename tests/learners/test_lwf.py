"""LwF: the softmax over old classes in closed form; new samples alone."""

import copy
import math

import pytest
import torch

from moca.learners.lwf import LwF
from tests.learners.conftest import task


@pytest.fixture
def learner(attached):
    return lambda *tasks, **options: attached(LwF(**options), *(tasks or ((0, 1), (2,), (3, 4))))


def softmax(logits, classes, temperature=2.0):
    parts = [math.exp(logits[c] / temperature) for c in classes]
    return [part / sum(parts) for part in parts]


@pytest.mark.parametrize(("among", "rivals"), [("task", [3, 4]), ("seen", range(6))])
def test_the_old_softmax_is_kept_and_new_samples_compete_as_asked(learner, model, make_batch, slow, among, rivals):
    one = learner(alpha=0.5, among=among)
    before = copy.deepcopy(model)
    with torch.no_grad():
        model.head.weight.mul_(-1.5)
    new = make_batch([3, 4, 4])
    losses = one.losses(new)
    assert set(losses) == {"new", "old"}
    assert losses["new"].item() == pytest.approx(slow.cross_entropy(new.features, new.y, rivals), rel=1e-5)
    far = 0.0
    for h in new.features:
        p, q = (softmax(net.classify(h).tolist(), [0, 1, 2]) for net in (before, model))
        far += sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))
    assert far > 0.01
    assert losses["old"].item() == pytest.approx(0.5 * far / 3, rel=1e-4)


@pytest.mark.parametrize("tasks", [((0, 1), (2,)), ((2,),)])
def test_a_class_alone_in_its_task_competes_with_all(learner, make_batch, slow, tasks):
    """Among itself it would be certain from the start."""
    new = make_batch([2, 2, 2])
    loss = learner(*tasks).losses(new)["new"]
    assert loss.item() == pytest.approx(slow.cross_entropy(new.features, new.y), rel=1e-5)


def test_by_hand(learner, model, make_batch):
    """Two old classes, both equal before, e^2 : 1 now; at temperature 2 that is e : 1."""
    with torch.no_grad():
        for p in model.parameters():
            p.zero_()
    one = learner((0, 1), (2, 3))
    with torch.no_grad():
        model.head.bias[0] = 2
    q = math.e / (1 + math.e)
    expected = 0.5 * math.log(0.5 / q) + 0.5 * math.log(0.5 / (1 - q))
    assert one.losses(make_batch([2, 3]))["old"].item() == pytest.approx(expected, rel=1e-5)


def test_what_is_kept_reaches_old_classes_alone(learner, model, make_batch):
    one = learner()
    with torch.no_grad():
        model.head.weight.mul_(-1.5)
    losses = one.losses(make_batch([3, 4]))
    for term, reached in (("new", [3, 4]), ("old", [0, 1, 2])):
        (slope,) = torch.autograd.grad(losses[term], model.head.weight, retain_graph=True)
        assert slope.abs().sum(1).nonzero().flatten().tolist() == reached


def test_an_unchanged_network_has_forgotten_nothing(learner, make_batch):
    assert learner().losses(make_batch([3, 4]))["old"].item() == pytest.approx(0, abs=1e-6)


def test_the_first_task_is_plain_training(learner, make_batch, slow):
    new = make_batch([3, 4, 4])
    losses = learner((3, 4), among="seen").losses(new)
    assert list(losses) == ["new"]
    assert losses["new"].item() == pytest.approx(slow.cross_entropy(new.features, new.y), rel=1e-5)


def test_a_class_that_comes_back_is_old_and_learnt(learner, model, make_batch):
    one = learner((0, 1), (1, 2))
    with torch.no_grad():
        model.head.weight.mul_(-1.5)
    losses = one.losses(make_batch([1, 2]))
    for term, reached in (("new", [1, 2]), ("old", [0, 1])):
        (slope,) = torch.autograd.grad(losses[term], model.head.weight, retain_graph=True)
        assert slope.abs().sum(1).nonzero().flatten().tolist() == reached


def test_it_has_no_memory(learner):
    assert not learner().has_memory
    one = learner()
    one.begin_task(task(5))
    assert not any(p.requires_grad for p in one.teacher.parameters())


def test_a_cold_softmax_stays_a_number(learner, model, make_batch):
    """Classes that are out stay out by a finite logit, whatever it would be divided by."""
    one = learner(temperature=0.5)
    with torch.no_grad():
        model.head.weight.mul_(-1.5)
    loss = one.losses(make_batch([3, 4]))["old"]
    (slope,) = torch.autograd.grad(loss, model.head.weight)
    assert loss > 0
    assert loss.isfinite()
    assert slope.isfinite().all()
