"""SS-IL: separated softmax; new samples compete among the current task's classes, old ones among those of the past.

Paper: Ahn et al., ICCV 2021, arXiv 2003.13947.
"""

from typing import TYPE_CHECKING, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from moca.batch import Batch
from moca.learners.base import Distilling, Losses, among, divergence
from moca.memory import Past
from moca.parts import option

if TYPE_CHECKING:
    from moca.streams import Task


class SSIL(Distilling):
    """Neither part of the softmax can push the other down, however few old samples there are.

    In the form of online comparisons (AML) each batch has a mean of its own and old samples alone are distilled; in
    the official one both have one mean, one pass, and are distilled.
    """

    distil: bool = option(False, "hold each earlier task's softmax to that of the network before the task")
    form: Literal["aml", "official"] = option("aml", "two means, or one over new and old samples that pass together")
    temperature: float = option(2.0, "of the distilled softmax", gt=0)

    draw = Past
    expected_adjust = 0.0
    remembers = ("earlier",)
    earlier = 0
    """Tasks that came before, if they are distilled."""

    def begin_task(self, task: "Task") -> None:
        """Count the earlier ones, if they are distilled: a softmax each is more in every step, which is another one."""
        super().begin_task(task)
        self.earlier = int(self.number) if self.distil else 0

    def losses(self, new: Batch, *replays: Batch) -> Losses:
        """CE(new) over the current task's classes, CE(old) over those of earlier tasks, and what is distilled."""
        each = {"new": _separated(new.logits, new.y, self.current)}  # a number a sample
        if not replays or self.first_task:
            return {"new": each["new"].mean()}
        (replay,) = replays
        assert replay.old is not None
        logits = self.model.classify(self.perturbed(replay, new))
        each["replay"] = _separated(logits, replay.y, self.old).masked_fill(~replay.old, 0)
        if self.distil:
            far = self._far(replay, self.model.classify(replay.features)).masked_fill(~replay.old, 0)
            each["distil"] = far if self.form == "aml" else torch.cat([self._far(new, new.logits), far])
        olds = replay.old.sum()
        if self.form == "official":
            return {name: term.sum() / (len(new.y) + olds) for name, term in each.items()}
        return {name: term.mean() if name == "new" else term.sum() / olds.clamp_min(1) for name, term in each.items()}

    def scores(self, logits: Tensor) -> Tensor:
        """Among the classes that came: no loss has told samples from the others."""
        return among(logits, self.seen)

    def _far(self, batch: Batch, logits: Tensor) -> Tensor:
        """KL from the teacher's softmax of each earlier task, summed over the tasks; one number a sample."""
        with torch.no_grad():
            told = self.teacher(batch.x)
        far = torch.zeros_like(logits[:, 0])
        for task in range(self.earlier):
            far = far + divergence(told, logits, self.came == task, self.temperature)
        return far if self.form == "aml" else self.temperature**2 * far

    @property
    def together(self) -> bool:
        """The official form passes new and old samples as one batch."""
        return self.form == "official"


def _separated(logits: Tensor, y: Tensor, classes: Tensor) -> Tensor:
    """Cross-entropy of each sample among these classes."""
    return F.cross_entropy(among(logits, classes), y, reduction="none")
