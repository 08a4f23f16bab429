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
    """CE on new samples, and on the same samples distillation of the softmax over old classes."""

    alpha: float = option(1.0, "weight of the distillation", ge=0)
    temperature: float = option(2.0, "of the distilled softmax", gt=0)
    among: Literal["task", "seen"] = option(
        "task",
        "classes that new samples compete with: those of their task, as in the paper (if several), or all",
    )

    draws = 0
    store = None
    refuses = "it replays nothing, so there is nothing to move"
    recipes = {"cifar100/offline": {"lr": 0.03}, "tinyimagenet/offline": {"lr": 0.03}}

    def losses(self, new: Batch, *replays: Batch) -> Losses:
        """CE(new) + alpha KL(softmax over old classes before the task || now).

        The KL is the paper's cross-entropy less its minimum, which is a constant.
        """
        alone = self.current.sum() == 1  # a softmax over a single class has no gradient
        rivals = self.current | alone if self.among == "task" else torch.ones_like(self.current)
        losses = {"new": F.cross_entropy(among(new.logits, rivals), new.y)}
        if not self.first_task:
            with torch.no_grad():
                teacher_logits = self.teacher(new.x)
            losses["old"] = self.alpha * divergence(teacher_logits, new.logits, self.old, self.temperature).mean()
        return losses

    def scores(self, logits: Tensor) -> Tensor:
        """The logits of the classes seen so far: no loss has separated samples from the others."""
        return among(logits, self.seen)
