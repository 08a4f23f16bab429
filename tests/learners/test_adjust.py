"""Logit adjustment: the lead of new classes, by hand and as a softmax learns it, and who refuses to take it back."""

import pytest
import torch
from torch import nn

from moca import Batch, MocaError, Model
from moca.parts import LEARNERS
from moca.settings.choice import choice_of
from tests.learners.conftest import task


@pytest.mark.parametrize(
    ("tasks", "times"),
    [
        ([], [1] * 6),
        ([(0, 1)], [1] * 6),
        ([(0, 1), (2,)], [1, 1, 4, 1, 1, 1]),
        ([(0, 1), (2, 3), (4, 5)], [1, 1, 1, 1, 4, 4]),
        ([(0, 1), (1, 2)], [1, 2.5, 2.5, 1, 1, 1]),
        ([(0, 1), (0, 1)], [1] * 6),
        ([(0, 1), (0, 1, 2)], [1] * 6),
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
    torch.testing.assert_close(er.adjusted(er.predict(torch.eye(4))).softmax(1), balanced, atol=1e-3, rtol=0)


@pytest.mark.parametrize("learner", ["icarl:adjust=1", "teacher:of=icarl,adjust=1"])
def test_distances_know_no_lead(learner):
    with pytest.raises(MocaError, match=r"adjust needs logits, .* by distances; leave it out"):
        choice_of(LEARNERS, learner).make()


def test_with_a_teacher_it_is_an_option_of_the_teacher():
    with pytest.raises(MocaError, match=r"of = 'er:adjust=1': adjust is an option of the teacher"):
        LEARNERS.find("teacher")(of="er:adjust=1")
