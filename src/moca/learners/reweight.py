"""Re-weighting: experience replay in which rare classes have more weight.

Paper: Kang et al., ICLR 2020, arXiv 1910.09217.
"""

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from moca.batch import Batch
from moca.learners.base import Learner, Losses
from moca.state import longer

if TYPE_CHECKING:
    from moca.streams import Task


class Reweight(Learner):
    """ER with one weighted mean over new and replayed samples, w_c = 1 / (samples of class c in the task and memory).

    If all classes have equally many samples and both batches are of the same size, this is ER.
    """

    remembers = ("came_now", "task_size")

    def prepare(self) -> None:
        """Create `came_now`, the number of samples of each class seen in this task."""
        self.came_now = torch.zeros(len(self.came), device=self.came.device)
        self.task_size = 0

    def begin_task(self, task: "Task") -> None:
        """Reset the counts: the class frequencies of a task are not known before its samples arrive."""
        super().begin_task(task)
        self.came_now.zero_()
        self.task_size = len(task.train)

    def losses(self, new: Batch, *replays: Batch) -> Losses:
        """sum(w CE) / sum(w) over both batches, split into two terms, and doubled, as ER is the sum of two means."""
        self.came_now.index_add_(0, new.y, torch.ones_like(new.y, dtype=self.came_now.dtype))
        weight = 1 / self._counts().clamp_min(1)
        terms = {"new": (new.logits, new.y)}
        for replay in replays:  # none while the memory is empty
            terms["replay"] = self.model.classify(self.perturbed(replay, new)), replay.y
        total = weight[torch.cat([y for _, y in terms.values()])].sum() / len(terms)
        return {
            name: (weight[y] * F.cross_entropy(logits, y, reduction="none")).sum() / total
            for name, (logits, y) in terms.items()
        }

    def _counts(self) -> Tensor:
        """Samples of each class in the task, estimated from the frequencies so far, plus those in the memory."""
        counts = self.task_size * self.came_now / self.came_now.sum()
        if self.memory is not None and len(self.memory):
            filled = (~self.memory.empty).to(counts.dtype)
            counts = counts.index_add(0, self.memory.fields["y"][: self.memory.size], filled)
        return counts

    def grow(self, classes: int) -> None:
        """Extend the counts to this many classes."""
        super().grow(classes)
        self.came_now = longer(self.came_now, classes)
