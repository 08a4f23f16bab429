"""DER: dark experience replay; replayed samples keep the logits they had when stored, and no labels.

Paper: Buzzega et al., NeurIPS 2020, arXiv 2004.07211.
"""

import torch.nn.functional as F

from moca.batch import Batch
from moca.learners.base import Learner, Losses
from moca.parts import option


class DER(Learner):
    """CE on new samples, and replayed samples' logits are pulled towards those they had when stored."""

    alpha: float = option(0.3, "weight of the stored logits", ge=0)

    keeps = ("logits",)
    refuses = "nothing is learnt from the labels of replayed samples; derpp does that"
    recipes = {"offline": {"lr": 0.03}}

    def losses(self, new: Batch, *replays: Batch) -> Losses:
        """CE(new) + alpha MSE(logits, stored logits)."""
        losses = {"new": F.cross_entropy(new.logits, new.y)}
        if replays:
            (dark,) = replays
            losses["logits"] = self.alpha * F.mse_loss(self.model.classify(dark.features), dark.logits)
        return losses
