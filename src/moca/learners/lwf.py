"""LwF: learning without forgetting; no memory, old classes keep the outputs they had before the task.

Paper: Li and Hoiem, ECCV 2016, arXiv 1606.09282.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from moca.batch import Batch
from moca.learners.base import Distilling, Losses, among, divergence
from moca.parts import option


class LwF(Distilling):
    """New samples by their labels, and on the same samples the softmax over old classes that the network had."""

    alpha: float = option(1.0, "weight of the old classes' outputs", ge=0)
    temperature: float = option(2.0, "of their softmax", gt=0)
    among: Literal["task", "seen"] = option(
        "task",
        "classes that new samples compete with: those of their task, as in the paper (if several), or all",
    )

    draws = 0
    store = None
    refuses = "it replays nothing, so there is nothing to move"
    recipes = {"cifar100/offline": {"lr": 0.03}, "tinyimagenet/offline": {"lr": 0.03}}

    def losses(self, new: Batch, *replays: Batch) -> Losses:
        """CE(new), and the cross-entropy of the old classes' softmax with what it was, less its minimum: KL."""
        alone = self.current.sum() == 1  # among itself, a class would have nothing to learn
        rivals = self.current | alone if self.among == "task" else torch.ones_like(self.current)
        losses = {"new": F.cross_entropy(among(new.logits, rivals), new.y)}
        if not self.first_task:
            with torch.no_grad():
                told = self.teacher(new.x)
            losses["old"] = self.alpha * divergence(told, new.logits, self.old, self.temperature).mean()
        return losses

    def scores(self, logits: Tensor) -> Tensor:
        """Among the classes that came: no loss has told samples from the others."""
        return among(logits, self.seen)
