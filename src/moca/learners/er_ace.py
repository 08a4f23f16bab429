"""ER-ACE: experience replay with asymmetric cross-entropy; new samples compete only with classes of their own batch.

Paper: Caccia et al., ICLR 2022, arXiv 2104.05025.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from moca.batch import Batch
from moca.learners.base import Learner, Losses, OfficialPasses, among
from moca.parts import option
from moca.perturb.base import Perturbation
from moca.perturb.wap import WAP


class ERACE(Learner):
    """New samples compete only with the classes of their own batch, so that they do not push old classes away."""

    mask: Literal["unseen", "official"] = option(
        "unseen",
        "classes that compete in addition to the batch's: those of later tasks, or (official) those numbered no lower "
        "than the highest class seen so far",
    )

    recipes = {"offline": {"lr": 0.03}}
    expected_adjust = 0.0
    remembers = ("highest",)

    def prepare(self) -> None:
        """Create `highest`, the highest class number seen so far."""
        self.highest = torch.zeros((), dtype=torch.int64, device=self.came.device)

    def losses(self, new: Batch, *replays: Batch) -> Losses:
        """CE(new) + CE(replay); from the second task on, CE(new) is over the classes of `_competing`."""
        losses = {"new": F.cross_entropy(self._competing(new.logits, new.y), new.y)}
        for replay in replays:  # none while the memory is empty
            logits = self.model.classify(self.perturbed(replay, new))
            losses["replay"] = F.cross_entropy(logits, replay.y)
        return losses

    def _competing(self, logits: Tensor, y: Tensor) -> Tensor:
        """The logits with seen classes masked out unless they occur in the batch."""
        known = self.seen
        if self.mask == "official":
            self.highest.copy_(torch.maximum(self.highest, y.max()))
            known = torch.arange(len(self.came), device=y.device) < self.highest
        if self.first_task:
            return logits
        present = torch.zeros_like(self.current).index_fill(0, y, True)
        return among(logits, ~known | present)

    def official_passes(self, perturbation: Perturbation) -> OfficialPasses | None:
        """Known only with WAP."""
        return OfficialPasses("nnbn", "nnbnb", "nnbnb", "nn") if isinstance(perturbation, WAP) else None
