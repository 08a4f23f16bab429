"""ER-ACE: new samples compete with the classes of their batch and with those not seen yet, or with higher ones."""

import pytest
import torch

from moca.learners.er_ace import ERACE
from moca.parts import PERTURBATIONS
from tests.learners.conftest import task


@pytest.fixture
def learner(attached):
    return lambda *tasks, mask="unseen", **given: attached(ERACE(mask=mask), *tasks, **given)


def test_the_first_task_is_not_masked(learner, make_batch, slow):
    new, replay = make_batch([1, 1]), make_batch([0, 1, 1], seed=1)
    losses = learner((0, 1, 2)).losses(new, replay)
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
def test_later_tasks_mask_seen_classes_that_are_not_in_the_batch(learner, make_batch, slow, tasks, labels, competing):
    new, replay = make_batch(labels), make_batch([0, 1, 2, 5], seed=1)
    losses = learner(*tasks).losses(new, replay)
    assert losses["new"].item() == pytest.approx(slow.cross_entropy(new.features, new.y, competing), rel=1e-4, abs=1e-6)
    assert losses["replay"].item() == pytest.approx(slow.cross_entropy(replay.features, replay.y), rel=1e-5)


def test_masked_classes_get_no_gradient_and_the_others_do(learner, model, make_batch):
    learner((0, 1), (2, 3)).losses(make_batch([3, 3]))["new"].backward()
    touched = model.head.weight.grad.abs().sum(1) > 0
    assert touched.tolist() == [False, False, False, True, True, True]
    assert torch.isfinite(model.head.weight.grad).all()


def test_replay_is_perturbed(learner, make_batch, slow, recorder):
    new, replay = make_batch([2, 3]), make_batch([0, 2, 1], seed=1, old=[True, False, True])
    losses = learner((0, 1), (2, 3), perturbation=recorder).losses(new, replay)
    moved = replay.features.detach().clone()
    moved[[0, 2]] += 1
    assert losses["replay"].item() == pytest.approx(slow.cross_entropy(moved, replay.y), rel=1e-5)


STREAM = [
    ((0, 1), [[0, 0], [1, 0], [1]]),
    ((2, 3), [[2, 2], [2, 3], [2]]),
    ((4, 5), [[4], [5, 4], [4, 4]]),
]
"""Tasks and the labels of their batches."""


class TestOfficialMask:
    def test_against_a_loop(self, attached, make_batch, slow):
        """Classes at or above the highest that has come so far compete, and those of the batch."""
        ace, seen = attached(ERACE(mask="official")), []
        for number, (classes, labels) in enumerate(STREAM):
            ace.begin_task(task(*classes))
            for y in labels:
                seen += y
                competing = {c for c in range(6) if c in y or c >= max(seen)} if number else set(range(6))
                new, replay = make_batch(y), make_batch([0, 1, 2, 5], seed=1)
                losses = ace.losses(new, replay)
                expected = slow.cross_entropy(new.features, new.y, competing)
                assert losses["new"].item() == pytest.approx(expected, rel=1e-4, abs=1e-6)
                assert losses["replay"].item() == pytest.approx(slow.cross_entropy(replay.features, replay.y), rel=1e-5)

    def test_current_classes_that_did_not_come_yet_compete_until_they_do(self, learner, model, make_batch):
        """Where the two masks differ: in the first batches of a task, and with a batch of lower classes later."""
        touched = {}
        for mask in ("unseen", "official"):
            ace = learner((0, 1), (2, 3), mask=mask)
            for step, labels in enumerate(([2, 2], [3, 3], [2, 2])):
                model.zero_grad()
                ace.losses(make_batch(labels))["new"].backward()
                touched[mask, step] = (model.head.weight.grad.abs().sum(1) > 0).nonzero().flatten().tolist()
        assert touched["unseen", 0] == [2, 4, 5] and touched["official", 0] == [2, 3, 4, 5]
        assert touched["unseen", 1] == touched["official", 1] == [3, 4, 5]
        assert touched["unseen", 2] == [2, 4, 5] and touched["official", 2] == [2, 3, 4, 5], "3 is the highest"

    def test_the_first_task_counts_for_what_is_highest(self, learner, make_batch, slow):
        ace = learner((0, 5), mask="official")
        ace.losses(make_batch([5, 0]))
        ace.begin_task(task(1, 2))
        new = make_batch([1, 1])
        expected = slow.cross_entropy(new.features, new.y, {1, 5})
        assert ace.losses(new)["new"].item() == pytest.approx(expected, rel=1e-4)

    def test_resumes_exactly(self, attached, make_batch):
        ace, other = (attached(ERACE(mask="official"), (0, 1), (2, 3)) for _ in range(2))
        ace.losses(make_batch([3, 2]))
        other.load_state_dict(ace.state_dict())
        new = make_batch([2, 2], seed=4)
        assert torch.equal(other.losses(new)["new"], ace.losses(new)["new"])
        assert other.highest == 3


@pytest.mark.parametrize("name", PERTURBATIONS.built_in)
def test_the_official_passes_are_known_with_wap(name):
    """The new batch twice before anything is stored, and after."""
    passes = ERACE().official_passes(PERTURBATIONS.find(name)())
    assert passes == (("nnbn", "nnbnb", "nnbnb", "nn") if name == "wap" else None)


def test_the_replay_batch_s_share_of_the_running_statistics():
    running = 0.0
    for _ in range(200):
        for role in ERACE().official_passes(PERTURBATIONS.find("wap")()).later:
            running = 0.9 * running + 0.1 * (role == "b")
    assert running == pytest.approx(0.44, abs=0.005)
