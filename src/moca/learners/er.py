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
    """The mean loss on new data plus the mean loss on replayed data; or one mean over both."""

    passes: Literal["separate", "concatenated"] = option(
        "separate", "new and replayed samples: a forward pass and a mean each, or one for both"
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
        """In one pass, BatchNorm sees one batch."""
        return self.passes == "concatenated"

    def official_passes(self, perturbation: Perturbation) -> OfficialPasses | None:
        """Two passes of the replay batch and one more, the perturbation's own or, without one, the replay batch's."""
        if self.together or perturbation.official_pass is None:
            return None
        if not perturbation.moves:
            return OfficialPasses("nbb", "nbbb", "nbbb")
        return OfficialPasses("nb", "nbb" + perturbation.official_pass, "nbb")
