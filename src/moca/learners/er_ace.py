"""ER-ACE: experience replay with asymmetric cross-entropy."""

import torch
import torch.nn.functional as F
from torch import Tensor

from moca.batch import Batch
from moca.learners.learner import Learner, Losses
from moca.settings import learners as settings


class ERACE(Learner[settings.ERACE]):
    """New samples compete only with the classes of their own batch, so that they do not push old ones away."""

    def losses(self, new: Batch, *replays: Batch) -> Losses:
        """CE over the batch's classes (from the second task on) + CE(replay)."""
        losses = {"new": F.cross_entropy(self._competing(new.logits, new.y), new.y)}
        if replays:
            (replay,) = replays
            logits = self.model.classify(self.perturbed(replay, new))
            losses["replay"] = F.cross_entropy(logits, replay.y)
        return losses

    def _competing(self, logits: Tensor, y: Tensor) -> Tensor:
        """Logits of the classes in the batch and of those not seen yet; the others are out."""
        if self.first_task:
            return logits
        present = torch.zeros_like(self.seen).index_fill(0, y, True)
        return logits.masked_fill(self.seen & ~present, torch.finfo(logits.dtype).min)
