"""DER++: dark experience replay; replayed samples keep their labels and the logits they had when stored.

Paper: Buzzega et al., NeurIPS 2020, arXiv 2004.07211.
"""

import torch.nn.functional as F

from moca.batch import Batch
from moca.learners.base import Learner, Losses, OfficialPasses
from moca.parts import option
from moca.perturb.base import Perturbation
from moca.perturb.wap import WAP


class DERpp(Learner):
    """ER, and replayed samples' logits are pulled towards those they had when stored. Draws two replay batches."""

    alpha: float = option(0.1, "weight of the stored logits", ge=0)
    beta: float = option(0.5, "weight of the stored labels", ge=0)

    draws = 2
    keeps = ("logits",)
    recipes = {
        "offline": {"lr": 0.03},
        "cifar10/offline/500": {"alpha": 0.2},
        "cifar10/offline/2000": {"alpha": 0.2},
        "tinyimagenet/offline/200": {"beta": 1.0},
        "tinyimagenet/offline/500": {"alpha": 0.2},
        "small": {"lr": 0.01},
    }

    def losses(self, new: Batch, *replays: Batch) -> Losses:
        """CE(new) + alpha MSE(logits, stored logits) + beta CE(replay), where only the last term is perturbed."""
        losses = {"new": F.cross_entropy(new.logits, new.y)}
        if replays:
            dark, labelled = replays
            logits = self.model.classify(dark.features)
            losses["logits"] = self.alpha * F.mse_loss(logits, dark.logits)
            logits = self.model.classify(self.perturbed(labelled, new))
            losses["replay"] = self.beta * F.cross_entropy(logits, labelled.y)
        return losses

    def official_passes(self, perturbation: Perturbation) -> OfficialPasses | None:
        """Known only with WAP."""
        return OfficialPasses("n1nb", "n1nbb", "n1nbb") if isinstance(perturbation, WAP) else None
