"""Finetuning: plain training on each task in turn, the lower bound.

Paper: Buzzega et al., NeurIPS 2020, arXiv 2004.07211 (SGD, the lower bound of its tables).
"""

import torch.nn.functional as F

from moca.batch import Batch
from moca.learners.base import Learner, Losses


class Finetune(Learner):
    """CE on new samples only."""

    draws = 0
    store = None
    refuses = "it replays nothing, so there is nothing to move"
    recipes = {"cifar100/offline": {"lr": 0.03}, "tinyimagenet/offline": {"lr": 0.03}}

    def losses(self, new: Batch, *replays: Batch) -> Losses:
        """CE(new)."""
        return {"new": F.cross_entropy(new.logits, new.y)}
