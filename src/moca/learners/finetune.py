"""Finetuning and joint training: the lower and the upper bound."""

import torch.nn.functional as F

from moca.batch import Batch
from moca.learners.learner import Learner, Losses
from moca.settings import learners as settings


class Finetune(Learner[settings.Finetune]):
    """The loss on new data alone."""

    draws = 0

    def losses(self, new: Batch, *replays: Batch) -> Losses:
        """CE(new)."""
        return {"new": F.cross_entropy(new.logits, new.y)}


class Joint(Finetune):
    """The same loss, all tasks at once."""

    sees_all_tasks = True
