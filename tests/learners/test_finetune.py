"""Finetuning and joint training: the loss on what comes, nothing replayed."""

import pytest

from moca.learners.finetune import Finetune
from moca.learners.joint import Joint
from moca.parts import LEARNERS


@pytest.mark.parametrize("cls", [Finetune, Joint])
def test_the_mean_loss_on_new_data(attached, make_batch, slow, cls):
    new = make_batch([2, 3, 3, 0])
    losses = attached(cls(), (0, 2, 3)).losses(new)
    assert list(losses) == ["new"]
    assert losses["new"].item() == pytest.approx(slow.cross_entropy(new.features, new.y), rel=1e-5)


def test_only_joint_sees_all_tasks_and_only_these_have_no_memory():
    known = {name: LEARNERS.find(name) for name in LEARNERS.built_in}
    assert [name for name, cls in known.items() if cls.sees_all_tasks] == ["joint"]
    assert [name for name, cls in known.items() if cls.draws == 0] == ["finetune", "joint", "lwf"]
    assert [name for name, cls in known.items() if cls.refuses] == [
        "der", "finetune", "icarl", "joint", "lwf", "manifold_mixup",
    ]  # fmt: skip
