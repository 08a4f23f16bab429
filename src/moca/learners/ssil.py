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
    """New and old classes have separate softmaxes: neither can suppress the other, however few old samples there are.

    The `aml` form, from online comparisons, averages each batch on its own and distils only old samples; the `official`
    form has one forward pass and one mean over both batches, and distils both.
    """

    distil: bool = option(False, "distil each earlier task's softmax from the network before the task")
    form: Literal["aml", "official"] = option("aml", "two means, or one forward pass and mean over new and old samples")
    temperature: float = option(2.0, "of the distilled softmax", gt=0)

    draw = Past
    expected_adjust = 0.0
    remembers = ("earlier",)
    earlier = 0
    """The number of earlier tasks to distil."""

    def begin_task(self, task: "Task") -> None:
        """Count the earlier tasks, if they are distilled. Each adds a softmax, so a recorded step is recorded again."""
        super().begin_task(task)
        self.earlier = int(self.number) if self.distil else 0

    def losses(self, new: Batch, *replays: Batch) -> Losses:
        """CE(new) over the current task's classes + CE(old) over those of earlier tasks + distillation."""
        each = {"new": _separated(new.logits, new.y, self.current)}  # one value per sample
        if not replays or self.first_task:
            return {"new": each["new"].mean()}
        (replay,) = replays
        assert replay.old is not None
        logits = self.model.classify(self.perturbed(replay, new))
        each["replay"] = _separated(logits, replay.y, self.old).masked_fill(~replay.old, 0)
        if self.distil:
            kl = self._distillation(replay, self.model.classify(replay.features)).masked_fill(~replay.old, 0)
            each["distil"] = kl if self.form == "aml" else torch.cat([self._distillation(new, new.logits), kl])
        olds = replay.old.sum()
        if self.form == "official":
            return {name: term.sum() / (len(new.y) + olds) for name, term in each.items()}
        return {name: term.mean() if name == "new" else term.sum() / olds.clamp_min(1) for name, term in each.items()}

    def scores(self, logits: Tensor) -> Tensor:
        """The logits of the classes seen so far: no loss has separated samples from the others."""
        return among(logits, self.seen)

    def _distillation(self, batch: Batch, logits: Tensor) -> Tensor:
        """Per-sample KL from the teacher's softmax over each earlier task's classes, summed over the tasks."""
        with torch.no_grad():
            teacher_logits = self.teacher(batch.x)
        kl = torch.zeros_like(logits[:, 0])
        for task in range(self.earlier):
            kl = kl + divergence(teacher_logits, logits, self.came == task, self.temperature)
        return kl if self.form == "aml" else self.temperature**2 * kl

    @property
    def together(self) -> bool:
        """In the official form, new and old samples pass as one batch."""
        return self.form == "official"


def _separated(logits: Tensor, y: Tensor, classes: Tensor) -> Tensor:
    """Per-sample cross-entropy over these classes only."""
    return F.cross_entropy(among(logits, classes), y, reduction="none")
