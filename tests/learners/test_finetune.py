"""Finetuning and joint training: the loss on what comes, nothing replayed."""

import pytest

from moca.learners import LEARNERS
from moca.learners.finetune import Finetune, Joint
from moca.settings import learners as settings


@pytest.mark.parametrize("cls", [Finetune, Joint])
def test_the_mean_loss_on_new_data(model, make_batch, slow, cls):
    new = make_batch([2, 3, 3, 0])
    learner = cls(getattr(settings, cls.__name__)(), model, classes=6)
    learner.begin_task((0, 2, 3))
    losses = learner.losses(new)
    assert list(losses) == ["new"]
    assert losses["new"].item() == pytest.approx(slow.cross_entropy(new.features, new.y), rel=1e-5)


def test_only_joint_sees_all_tasks_and_only_these_two_have_no_memory():
    assert [name for name, cls in LEARNERS.items() if cls.sees_all_tasks] == ["joint"]
    assert [name for name, cls in LEARNERS.items() if cls.draws == 0] == ["finetune", "joint"]
