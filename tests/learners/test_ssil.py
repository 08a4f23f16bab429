"""SS-IL: separated softmaxes in closed form, task-wise distillation, and what does not reach what."""

import copy
import math

import pytest
import torch

from moca.learners.ssil import SSIL
from moca.memory import Past
from tests.learners.conftest import task

OLD = [True, True, False, True]


@pytest.fixture
def learner(attached):
    """In its third task: classes 0 and 1, then 2, then 3 and 4."""
    return lambda *tasks, perturbation=None, **options: attached(
        SSIL(**options), *(tasks or ((0, 1), (2,), (3, 4))), perturbation=perturbation
    )


@pytest.fixture
def batches(make_batch):
    return make_batch([3, 4, 4]), make_batch([0, 2, 3, 1], seed=1, old=OLD)


def test_each_softmax_has_its_own_classes(learner, batches, slow):
    new, replay = batches
    losses = learner().losses(new, replay)
    assert set(losses) == {"new", "replay"}
    assert losses["new"].item() == pytest.approx(slow.cross_entropy(new.features, new.y, [3, 4]), rel=1e-5)
    rows = [0, 1, 3]
    expected = slow.cross_entropy(replay.features[rows], replay.y[rows], [0, 1, 2])
    assert losses["replay"].item() == pytest.approx(expected, rel=1e-5)


def test_a_softmax_by_hand(learner, model, make_batch):
    """One new and one old sample whose logits are 0, 1, ..., 5."""
    with torch.no_grad():
        model.head.weight.zero_()
        model.head.bias.copy_(torch.arange(6.0))
    losses = learner().losses(make_batch([3]), make_batch([1], seed=1, old=[True]))
    assert losses["new"].item() == pytest.approx(math.log(1 + math.e), rel=1e-6), "3 against 4"
    assert losses["replay"].item() == pytest.approx(math.log(math.exp(-1) + 1 + math.e), rel=1e-6), "1 against 0 and 2"


def test_new_samples_do_not_push_old_classes_nor_the_other_way_round(learner, model, batches):
    losses = learner().losses(*batches)
    for term, reached in (("new", [3, 4]), ("replay", [0, 1, 2])):
        (slope,) = torch.autograd.grad(losses[term], model.head.weight, retain_graph=True)
        assert slope.abs().sum(1).nonzero().flatten().tolist() == reached


def test_the_first_task_learns_from_new_samples_alone(learner, make_batch, slow):
    one, new = learner((3, 4)), make_batch([3, 4, 4])
    for form in ("aml", "official"):
        one.form = form
        losses = one.losses(new, make_batch([3, 4], seed=1, old=[False] * 2))
        assert list(losses) == ["new"]
        assert losses["new"].item() == pytest.approx(slow.cross_entropy(new.features, new.y, [3, 4]), rel=1e-5)


@pytest.mark.parametrize("options", [{}, {"distil": True}, {"distil": True, "form": "official"}])
def test_where_nothing_old_was_drawn(learner, make_batch, options):
    losses = learner(**options).losses(make_batch([3, 4]), make_batch([3, 4], seed=1, old=[False, False]))
    assert losses["replay"].item() == 0
    sum(losses.values()).backward()
    assert torch.isfinite(sum(losses.values()))


def test_a_class_that_comes_back_counts_as_old_and_competes_with_the_new(learner, make_batch, slow):
    one = learner((0, 1), (1, 2))
    new, replay = make_batch([1, 2]), make_batch([0, 1], seed=1, old=[True, True])
    losses = one.losses(new, replay)
    assert losses["new"].item() == pytest.approx(slow.cross_entropy(new.features, new.y, [1, 2]), rel=1e-5)
    assert losses["replay"].item() == pytest.approx(slow.cross_entropy(replay.features, replay.y, [0, 1]), rel=1e-5)


def changed(one, model):
    """The teacher's weights, once the network has moved on."""
    before = copy.deepcopy(model)
    with torch.no_grad():
        model.head.weight.mul_(-1.5)
    return before


def taskwise(before, model, batch, rows, tasks=((0, 1), (2,)), temperature=2.0):
    """KL between the softmaxes of each earlier task, summed over tasks and these rows."""
    total = 0.0
    for i in rows:
        for classes in tasks:
            made = []
            for net in (before, model):
                logits = net.classify(batch.features[i]).tolist()
                parts = [math.exp(logits[c] / temperature) for c in classes]
                made.append([part / sum(parts) for part in parts])
            total += sum(p * math.log(p / q) for p, q in zip(*made, strict=True))
    return total


def test_every_earlier_task_is_distilled_apart(learner, model, batches):
    one = learner(distil=True)
    before = changed(one, model)
    new, replay = batches
    losses = one.losses(new, replay)
    expected = taskwise(before, model, replay, [0, 1, 3]) / 3
    assert expected > 1e-3
    assert losses["distil"].item() == pytest.approx(expected, rel=1e-4)
    assert taskwise(before, model, replay, [0, 1, 3], [(0, 1, 2)]) / 3 != pytest.approx(expected, rel=1e-2)


def test_the_official_form_has_one_mean_and_distils_new_samples_too(learner, model, make_batch, slow):
    one = learner(distil=True, form="official")
    before = changed(one, model)
    new, replay = make_batch([3, 4, 4]), make_batch([0, 2, 3, 1], seed=1, old=OLD)
    losses, rows = one.losses(new, replay), [0, 1, 3]
    assert one.together and not learner().together
    assert losses["new"].item() == pytest.approx(3 / 6 * slow.cross_entropy(new.features, new.y, [3, 4]), rel=1e-5)
    assert losses["replay"].item() == pytest.approx(
        3 / 6 * slow.cross_entropy(replay.features[rows], replay.y[rows], [0, 1, 2]), rel=1e-5
    )
    far = taskwise(before, model, replay, rows) + taskwise(before, model, new, range(3))
    assert losses["distil"].item() == pytest.approx(4 * far / 6, rel=1e-4)


def test_nothing_is_distilled_from_an_unchanged_network(learner, batches):
    assert learner(distil=True).losses(*batches)["distil"].item() == pytest.approx(0, abs=1e-6)


def test_labels_are_perturbed_and_what_is_distilled_is_not(learner, model, batches, slow, recorder):
    one = learner(distil=True, perturbation=recorder)
    before = changed(one, model)
    new, replay = batches
    losses, rows = one.losses(new, replay), [0, 1, 3]
    moved = replay.features.detach()[rows] + 1
    assert losses["replay"].item() == pytest.approx(slow.cross_entropy(moved, replay.y[rows], [0, 1, 2]), rel=1e-5)
    assert losses["distil"].item() == pytest.approx(taskwise(before, model, replay, rows) / 3, rel=1e-4)


def test_the_teacher_is_the_network_before_the_task(learner, model):
    one = learner()
    one.begin_task(task(5))
    begun = copy.deepcopy(one.model.state_dict())
    changed(one, model)
    assert all(value.equal(begun[name]) for name, value in one.teacher.state_dict().items())
    assert SSIL.draw is Past
