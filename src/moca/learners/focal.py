"""Focal: experience replay with the focal loss, which gives less weight to confidently classified samples.

Paper: Lin et al., ICCV 2017, arXiv 1708.02002.
"""

import torch.nn.functional as F
from torch import Tensor

from moca.batch import Batch
from moca.learners.base import Learner, Losses
from moca.parts import option


class Focal(Learner):
    """ER with the focal loss in place of cross-entropy, in both terms."""

    gamma: float = option(2.0, "how much confident samples are down-weighted; 0 is cross-entropy", ge=0)

    def losses(self, new: Batch, *replays: Batch) -> Losses:
        """FL(new) + FL(replay)."""
        losses = {"new": self._focal(new.logits, new.y)}
        for replay in replays:  # none while the memory is empty
            losses["replay"] = self._focal(self.model.classify(self.perturbed(replay, new)), replay.y)
        return losses

    def _focal(self, logits: Tensor, y: Tensor) -> Tensor:
        """The mean of -(1 - p)^gamma log p, where p is the probability of the true class."""
        ce = F.cross_entropy(logits, y, reduction="none")
        one_minus_p = (1 - (-ce).exp()).clamp_min(1e-30)  # at 0, a power below 1 would have an infinite gradient
        return (one_minus_p**self.gamma * ce).mean()
