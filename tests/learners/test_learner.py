"""What all learners share: which classes are old, and when a perturbation is called."""

import pytest
import torch

from moca.learners import LEARNERS
from moca.settings import LEARNERS as SETTINGS

REPLAYING = ["er", "derpp", "er_ace"]


def learner(name, model, perturbation=None):
    settings = next(cls() for cls in SETTINGS if cls().name == name)
    return LEARNERS[name](settings, model, 6, perturbation)


def test_every_learner_of_the_settings_exists():
    assert list(LEARNERS) == [cls().name for cls in SETTINGS]


def test_old_means_seen_in_earlier_tasks_only(model):
    er = learner("er", model)
    er.begin_task((0, 3))
    assert er.first_task
    assert er.is_old(torch.tensor([0, 3, 3])).tolist() == [False] * 3
    er.begin_task((1, 2))
    assert not er.first_task
    assert er.is_old(torch.tensor([0, 1, 2, 3])).tolist() == [True, False, False, True]
    assert er.seen.tolist() == [True] * 4 + [False] * 2
    er.begin_task((4,))
    assert er.is_old(torch.tensor([0, 1, 2, 3, 4])).tolist() == [True] * 4 + [False]


def test_a_class_that_comes_back_is_not_old(model):
    er = learner("er", model)
    er.begin_task((0, 1))
    er.begin_task((1, 2))
    assert er.is_old(torch.tensor([0, 1, 2])).tolist() == [True, False, False]


@pytest.mark.parametrize("name", REPLAYING)
def test_the_perturbation_is_called_once_a_step_from_the_second_task_on(model, make_batch, recorder, name):
    one = learner(name, model, recorder)
    new = make_batch([0, 1])

    def replays():
        labels = [0, 1, 2]
        old = one.is_old(torch.tensor(labels)).tolist()
        return [make_batch(labels, seed=s, stored=True, old=old) for s in range(one.draws)]

    one.begin_task((0, 1))
    one.losses(new)
    one.losses(new, *replays())
    assert recorder.calls == []

    one.begin_task((2, 3))
    one.losses(new)
    assert recorder.calls == [], "nothing is replayed, so nothing can be moved"
    given = replays()
    one.losses(new, *given)
    assert len(recorder.calls) == 1
    replay, passed_new = recorder.calls[0]
    assert replay is given[-1]
    assert replay.old.tolist() == [True, True, False]
    assert passed_new is new


@pytest.mark.parametrize("name", REPLAYING)
def test_without_perturbation_features_pass_unchanged(model, make_batch, name):
    one = learner(name, model)
    one.begin_task((0, 1))
    one.begin_task((2, 3))
    replay = make_batch([0, 1, 2], old=[True, True, False])
    assert one.perturbed(replay, replay) is replay.features


def test_resumes_exactly(model, recorder):
    one, other = (learner("er_ace", model, recorder) for _ in range(2))
    for classes in ((0, 1), (2, 5)):
        one.begin_task(classes)
    recorder.calls = [None] * 3
    state = one.state_dict()
    one.begin_task((3, 4))
    recorder.calls = []
    other.load_state_dict(state)
    assert other.seen.tolist() == [True, True, True, False, False, True]
    assert other.current.tolist() == [False, False, True, False, False, True]
    assert not other.first_task
    assert len(recorder.calls) == 3
