"""LUCIR: a unified classifier by rebalancing; features keep their direction, old samples a margin to new classes.

Paper: Hou et al., CVPR 2019.
"""

import math
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from moca.batch import Batch
from moca.learners.base import Distilling, Losses, mean_over
from moca.parts import option
from moca.sphere import project

if TYPE_CHECKING:
    from moca.streams import Task


class LUCIR(Distilling):
    """ER with a cosine classifier. Features must keep the direction they had before the task, and old samples a margin
    to the nearest new classes."""

    lam: float = option(
        5.0, "weight of the directions, times the square root of old classes per new class", ge=0, alias="lambda"
    )
    margin: float = option(
        0.5, "by which an old sample's cosine to its class should exceed those to new classes", ge=0, le=2
    )
    rivals: int = option(2, "how many of the nearest new classes the margin applies to", ge=1)
    weight: float = option(1.0, "weight of the margin loss", ge=0)

    remembers = ("less_forget", "nearest")

    def prepare(self) -> None:
        """Create the weight of the directions and the number of rivals; both are 0 until a task begins."""
        super().prepare()
        self.less_forget, self.nearest = 0.0, 0

    def begin_task(self, task: "Task") -> None:
        """Set the weight of the directions, which grows with the number of old classes per new class."""
        super().begin_task(task)
        old, fresh = int(self.old.sum()), int((self.current & ~self.old).sum())
        self.less_forget = self.lam * math.sqrt(old / max(fresh, 1))
        self.nearest = min(self.rivals, fresh)

    def losses(self, new: Batch, *replays: Batch) -> Losses:
        """CE(new) + CE(replay) + lambda (1 - cos(h, h_old)) on all samples + the margin loss on old ones."""
        losses = {"new": F.cross_entropy(new.logits, new.y)}
        for replay in replays:
            logits = self.model.classify(self.perturbed(replay, new))
            losses["replay"] = F.cross_entropy(logits, replay.y)
        if self.first_task:
            return losses
        rotation = torch.cat([self._rotation(batch) for batch in (new, *replays)])
        losses["directions"] = self.less_forget * rotation.mean()
        if replays and self.nearest:
            losses["margin"] = self.weight * self._margin_loss(replays[0])
        return losses

    def _rotation(self, batch: Batch) -> Tensor:
        """1 - the cosine between each sample's feature and the one it had before the task."""
        with torch.no_grad():
            before = project(self.teacher.encode(batch.x))
        return 1 - (project(batch.features) * before).sum(1)

    def _margin_loss(self, replay: Batch) -> Tensor:
        """Violations of the margin to the nearest new classes, summed over these and averaged over old samples."""
        assert replay.old is not None
        cosines = project(replay.features) @ project(self.model.head.weight).T
        own = cosines.gather(1, replay.y.unsqueeze(1))
        rivals = cosines.masked_fill(~(self.current & ~self.old), -torch.inf).topk(self.nearest, 1).values
        violation = (self.margin - own + rivals).clamp_min(0).sum(1)
        return mean_over(replay.old, violation)
