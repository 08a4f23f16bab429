"""Logit adjustment: the lead of new classes, by hand and as a softmax learns it, and who takes it back."""

import math

import pytest
import torch
from torch import nn

from moca import Batch, MocaError, Model
from moca.parts import LEARNERS
from tests.learners.conftest import CLASSES, FEATURES, task


@pytest.mark.parametrize(
    ("tasks", "times"),
    [
        ([], [1] * 6),
        ([(0, 1)], [1] * 6),
        ([(0, 1), (2,)], [1, 1, 4, 1, 1, 1]),
        ([(0, 1), (2, 3), (4, 5)], [1, 1, 1, 1, 4, 4]),
        ([(0, 1), (1, 2)], [1, 2.5, 2.5, 1, 1, 1]),
    ],
)
def test_the_lead_by_hand(attached, tasks, times):
    er = attached(LEARNERS.find("er")(), *tasks)
    torch.testing.assert_close(er.lead.exp(), torch.tensor(times, dtype=torch.float32))


def test_what_a_softmax_learns_from_replay_is_the_balanced_answer_and_the_lead():
    """Where the loss of ER is least, exactly: classes 0 and 1 are old, 2 is new, and images are one of four."""
    counts = torch.tensor([[6, 3, 2, 1], [1, 7, 1, 3], [2, 2, 5, 3]])  # of each image, twelve a class
    x, y = torch.eye(4).repeat(3, 1), torch.arange(3).repeat_interleave(4)
    x, y = (rows.repeat_interleave(counts.flatten(), 0) for rows in (x, y))
    model = Model(nn.Identity(), nn.Linear(4, 3, bias=False))
    er = LEARNERS.find("er")(adjust=1).attach(model, 3)
    er.begin_task(task(0, 1))
    er.begin_task(task(2))
    optimiser = torch.optim.LBFGS(model.parameters(), max_iter=200, tolerance_grad=1e-7, line_search_fn="strong_wolfe")

    def loss():
        optimiser.zero_grad()
        new = Batch(x=x[y == 2], y=y[y == 2], features=x[y == 2], logits=model(x[y == 2]))
        total = sum(er.losses(new, Batch(x=x, y=y, features=x)).values())
        total.backward()
        return total

    optimiser.step(loss)
    balanced = counts.T / counts.sum(0)[:, None]
    torch.testing.assert_close(er.predict(torch.eye(4)).softmax(1), balanced, atol=1e-3, rtol=0)


@pytest.mark.parametrize("name", sorted({*LEARNERS.built_in} - {"icarl", "pass", "proxy"}))
def test_every_learner_takes_it_from_its_scores(model, name):
    x = torch.randn(5, FEATURES)
    plain, adjusted = (LEARNERS.find(name)(adjust=adjust).attach(model, CLASSES) for adjust in (0, 0.5))
    for learner in (plain, adjusted):
        learner.begin_task(task(0, 1, 2, 3, train=range(4)))
        learner.begin_task(task(4, 5, train=range(2)))
    lead = torch.tensor([0, 0, 0, 0, math.log(4), math.log(4)])
    torch.testing.assert_close(adjusted.predict(x), plain.predict(x) - 0.5 * lead)


def test_of_the_learner_within_a_teacher(model):
    x = torch.randn(5, FEATURES)
    one, other = (
        LEARNERS.find("teacher")(**options).attach(model, CLASSES)
        for options in ({"of": "er:adjust=1"}, {"of": "er", "adjust": 1})
    )
    for learner in (one, other):
        learner.begin_task(task(0, 1))
        learner.begin_task(task(2))
        assert learner.inner.lead.any()
    torch.testing.assert_close(one.predict(x), other.predict(x))
    assert not torch.equal(one.predict(x), model(x))


def test_prototypes():
    model, x = Model(nn.Identity(), nn.Linear(FEATURES, 4 * CLASSES)), torch.randn(5, FEATURES)
    plain, adjusted = (LEARNERS.find("pass")(adjust=adjust).attach(model, CLASSES) for adjust in (0, 1))
    for learner in (plain, adjusted):
        learner.begin_task(task(0, 1))
        learner.begin_task(task(2))
    torch.testing.assert_close(adjusted.predict(x)[:, 2], plain.predict(x)[:, 2] - math.log(4))
    torch.testing.assert_close(adjusted.predict(x)[:, :2], plain.predict(x)[:, :2])


def test_distances_know_no_lead():
    with pytest.raises(MocaError, match=r"leave out adjust"):
        LEARNERS.find("icarl")(adjust=1)
