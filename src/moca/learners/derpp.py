"""DER++: dark experience replay with labels."""

import torch.nn.functional as F

from moca.batch import Batch
from moca.learners.learner import Learner, Losses
from moca.settings import learners as settings


class DERpp(Learner[settings.DERpp]):
    """ER plus a pull of the logits towards those that each sample had when it was stored. Two independent draws."""

    draws = 2
    stores_logits = True

    def losses(self, new: Batch, *replays: Batch) -> Losses:
        """CE(new) + alpha MSE(logits, stored logits) + beta CE(replay), the last one perturbed."""
        losses = {"new": F.cross_entropy(new.logits, new.y)}
        if replays:
            dark, labelled = replays
            logits = self.model.classify(dark.features)
            losses["logits"] = self.settings.alpha * F.mse_loss(logits, dark.logits)
            logits = self.model.classify(self.perturbed(labelled, new))
            losses["replay"] = self.settings.beta * F.cross_entropy(logits, labelled.y)
        return losses
