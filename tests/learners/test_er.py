"""ER: two means in two passes, or one mean over both."""

import pytest

from moca.learners.er import ER
from moca.settings import learners as settings


def learner(model, **options):
    er = ER(settings.ER(), model, classes=6, **options)
    er.begin_task((0, 1))
    er.begin_task((2, 3))
    return er


def test_two_means(model, make_batch, slow):
    new, replay = make_batch([2, 3, 3]), make_batch([0, 1, 2, 0, 3], seed=1)
    losses = learner(model).losses(new, replay)
    assert set(losses) == {"new", "replay"}
    assert losses["new"].item() == pytest.approx(slow.cross_entropy(new.features, new.y), rel=1e-5)
    assert losses["replay"].item() == pytest.approx(slow.cross_entropy(replay.features, replay.y), rel=1e-5)


@pytest.mark.parametrize("replayed", [[0], [0, 1, 2, 0, 3, 1, 1]])
def test_one_mean_over_both(model, make_batch, slow, replayed):
    new, replay = make_batch([2, 3, 3]), make_batch(replayed, seed=1)
    losses = learner(model, one_mean=True).losses(new, replay)
    both = 3 * slow.cross_entropy(new.features, new.y)
    both += len(replayed) * slow.cross_entropy(replay.features, replay.y)
    assert sum(losses.values()).item() == pytest.approx(both / (3 + len(replayed)), rel=1e-5)


@pytest.mark.parametrize("one_mean", [False, True])
def test_with_an_empty_memory_only_new_data_count(model, make_batch, slow, one_mean):
    new = make_batch([2, 3, 3])
    losses = learner(model, one_mean=one_mean).losses(new)
    assert list(losses) == ["new"]
    assert losses["new"].item() == pytest.approx(slow.cross_entropy(new.features, new.y), rel=1e-5)


def test_replay_is_perturbed_and_new_data_are_not(model, make_batch, slow, recorder):
    old = [True, False, True]
    new, replay = make_batch([2, 3, 3]), make_batch([0, 2, 1], seed=1, old=old)
    losses = learner(model, perturbation=recorder).losses(new, replay)
    moved = replay.features.detach().clone()
    moved[[0, 2]] += 1
    assert losses["new"].item() == pytest.approx(slow.cross_entropy(new.features, new.y), rel=1e-5)
    assert losses["replay"].item() == pytest.approx(slow.cross_entropy(moved, replay.y), rel=1e-5)


def test_gradients_reach_both_batches(model, make_batch):
    new, replay = make_batch([2, 3]), make_batch([0, 1, 2], seed=1)
    sum(learner(model).losses(new, replay).values()).backward()
    assert new.features.grad.abs().min() > 0
    assert replay.features.grad.abs().min() > 0
