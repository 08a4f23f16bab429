"""ER: experience replay.

Paper: Riemer et al., ICLR 2019, arXiv 1810.11910; Chaudhry et al., preprint 2019, arXiv 1902.10486.
"""

from typing import Literal

import torch.nn.functional as F

from moca.batch import Batch
from moca.learners.base import Learner, Losses, OfficialPasses
from moca.parts import option
from moca.perturb.base import Perturbation


class ER(Learner):
    """The mean loss on new samples plus the mean loss on replayed ones; or one mean over both."""

    passes: Literal["separate", "concatenated"] = option(
        "separate", "new and replayed samples: each a forward pass and a mean of their own, or one for both"
    )

    recipes = {"tinyimagenet/offline/500": {"lr": 0.03}}

    def losses(self, new: Batch, *replays: Batch) -> Losses:
        """CE(new) + CE(replay)."""
        losses = {"new": F.cross_entropy(new.logits, new.y)}
        for replay in replays:  # none while the memory is empty
            logits = self.model.classify(self.perturbed(replay, new))
            losses["replay"] = F.cross_entropy(logits, replay.y)
            if self.together:
                share = len(replay.y) / (len(replay.y) + len(new.y))
                losses = {"new": (1 - share) * losses["new"], "replay": share * losses["replay"]}
        return losses

    @property
    def together(self) -> bool:
        """In a concatenated pass, BatchNorm sees one batch."""
        return self.passes == "concatenated"

    def official_passes(self, perturbation: Perturbation) -> OfficialPasses | None:
        """The replay batch passes twice, then the perturbation's own pass or, without one, the replay batch again."""
        if self.together or perturbation.official_pass is None:
            return None
        if not perturbation.moves:
            return OfficialPasses("nbb", "nbbb", "nbbb")
        return OfficialPasses("nb", "nbb" + perturbation.official_pass, "nbb")
