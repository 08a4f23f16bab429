"""ER-ACE: new samples compete with the classes of their batch and with those not seen yet."""

import pytest
import torch

from moca.learners.er_ace import ERACE
from moca.settings import learners as settings


def learner(model, *tasks, **options):
    ace = ERACE(settings.ERACE(), model, classes=6, **options)
    for classes in tasks:
        ace.begin_task(classes)
    return ace


def test_the_first_task_is_not_masked(model, make_batch, slow):
    new, replay = make_batch([1, 1]), make_batch([0, 1, 1], seed=1)
    losses = learner(model, (0, 1, 2)).losses(new, replay)
    assert losses["new"].item() == pytest.approx(slow.cross_entropy(new.features, new.y), rel=1e-5)
    assert losses["replay"].item() == pytest.approx(slow.cross_entropy(replay.features, replay.y), rel=1e-5)


@pytest.mark.parametrize(
    ("tasks", "labels", "competing"),
    [
        (((0, 1), (2, 3)), [2, 3, 3], {2, 3, 4, 5}),
        (((0, 1), (2, 3)), [3, 3], {3, 4, 5}),
        (((0, 1), (2, 3), (4, 5)), [4, 5], {4, 5}),
        (((0, 1), (2, 3), (4, 5)), [5], {5}),
        (((4, 5), (0, 2)), [0, 0, 2], {0, 2, 1, 3}),
    ],
)
def test_later_tasks_mask_seen_classes_that_are_not_in_the_batch(model, make_batch, slow, tasks, labels, competing):
    new, replay = make_batch(labels), make_batch([0, 1, 2, 5], seed=1)
    losses = learner(model, *tasks).losses(new, replay)
    assert losses["new"].item() == pytest.approx(slow.cross_entropy(new.features, new.y, competing), rel=1e-4, abs=1e-6)
    assert losses["replay"].item() == pytest.approx(slow.cross_entropy(replay.features, replay.y), rel=1e-5)


def test_masked_classes_get_no_gradient_and_the_others_do(model, make_batch):
    learner(model, (0, 1), (2, 3)).losses(make_batch([3, 3]))["new"].backward()
    touched = model.head.weight.grad.abs().sum(1) > 0
    assert touched.tolist() == [False, False, False, True, True, True]
    assert torch.isfinite(model.head.weight.grad).all()


def test_replay_is_perturbed(model, make_batch, slow, recorder):
    new, replay = make_batch([2, 3]), make_batch([0, 2, 1], seed=1, old=[True, False, True])
    losses = learner(model, (0, 1), (2, 3), perturbation=recorder).losses(new, replay)
    moved = replay.features.detach().clone()
    moved[[0, 2]] += 1
    assert losses["replay"].item() == pytest.approx(slow.cross_entropy(moved, replay.y), rel=1e-5)
