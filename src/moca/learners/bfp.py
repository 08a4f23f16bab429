"""BFP: backward feature projection; DER++ whose old features must stay a linear map of the new ones.

Paper: Gu, Shim and Shkurti, CVPR 2023, arXiv 2303.14595.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from moca.batch import Batch
from moca.learners.base import Distilling, Losses, OfficialPasses
from moca.learners.derpp import DERpp
from moca.parts import option
from moca.perturb.base import Perturbation

if TYPE_CHECKING:
    from moca.streams import Task


class BFP(DERpp, Distilling):
    """DER++ with a linear projector, trained along, that maps the new features to those of the old network.

    Features may rotate, stretch and gain new directions, but old classes stay linearly separable. With alpha=0, beta=1
    it is ER with the projector.
    """

    weight: float = option(1.0, "weight of the projection loss", ge=0)
    projector_lr: float = option(0.1, "learning rate of the projector", gt=0)
    projector_momentum: float = option(0.9, "momentum of the projector", ge=0, lt=1)
    targets: Literal["old", "stored"] = option(
        "old", "target logits of replayed old samples: the old network's, or the stored ones"
    )

    remembers = ("projector", "velocity")
    recipes = {"offline": {"lr": 0.03, "schedule": "steps:at=35,45,by=0.1"}, "small": {"lr": 0.01}}

    def prepare(self) -> None:
        """Create the projector and its momentum buffer."""
        super().prepare()
        d = self.model.head.weight.shape[1]
        self.projector = nn.utils.skip_init(nn.Linear, d, d, bias=False, device=self.came.device)
        nn.init.zeros_(self.projector.weight)  # uninitialised memory could hold NaN; `begin_task` sets the real weights
        self.velocity = torch.zeros(d, d, device=self.came.device)

    @torch.no_grad()
    def begin_task(self, task: Task) -> None:
        """Initialise the projector anew, like a linear layer."""
        super().begin_task(task)
        d = len(self.velocity)
        self.projector.weight.copy_((2 * self.random.uniform(d, d) - 1) / math.sqrt(d))
        self.velocity.zero_()

    def losses(self, new: Batch, *replays: Batch) -> Losses:
        """DER++ + weight * mean |A h - h_old| / sqrt(d), over new and replayed samples, from the second task on."""
        if self.first_task:
            return super().losses(new, *replays)
        batches = [new, *replays]
        with torch.no_grad():
            before = self.teacher.encode(torch.cat([batch.x for batch in batches]))
        now = torch.cat([batch.features for batch in batches])
        if replays and self.targets == "old":
            dark, labelled = replays
            replays = (self._with_teacher_logits(dark, before[len(new.x) : len(new.x) + len(dark.x)]), labelled)
        distance = (self.projector(now) - before).norm(dim=1) / math.sqrt(now.shape[1])
        return super().losses(new, *replays) | {"projection": self.weight * distance.mean()}

    def _with_teacher_logits(self, dark: Batch, features: Tensor) -> Batch:
        """The batch with the stored logits of old-class samples replaced by the old network's."""
        assert dark.old is not None
        with torch.no_grad():
            teacher_logits = self.teacher.classify(features)
        return dark.replace(logits=torch.where(dark.old.unsqueeze(1), teacher_logits, dark.logits))

    def update(self, losses: Losses, optimiser: torch.optim.Optimizer) -> None:
        """Take a step of the network, and an SGD step of the projector."""
        weight = self.projector.weight
        weight.grad = None
        super().update(losses, optimiser)
        if weight.grad is not None:  # none in the first task
            self.velocity.mul_(self.projector_momentum).add_(weight.grad)
            with torch.no_grad():
                weight.sub_(self.projector_lr * self.velocity)

    def official_passes(self, perturbation: Perturbation) -> OfficialPasses | None:
        """None: BFP is not in the official code."""
        return None
