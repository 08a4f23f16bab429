"""Experience replay."""

import torch.nn.functional as F

from moca.batch import Batch
from moca.learners.learner import Learner, Losses
from moca.settings import learners as settings


class ER(Learner[settings.ER]):
    """The mean loss on new data plus the mean loss on replayed data; or one mean over both."""

    def losses(self, new: Batch, *replays: Batch) -> Losses:
        """CE(new) + CE(replay)."""
        losses = {"new": F.cross_entropy(new.logits, new.y)}
        if replays:
            (replay,) = replays
            logits = self.model.classify(self.perturbed(replay, new))
            losses["replay"] = F.cross_entropy(logits, replay.y)
            if self.one_mean:
                share = len(replay.y) / (len(replay.y) + len(new.y))
                losses = {"new": (1 - share) * losses["new"], "replay": share * losses["replay"]}
        return losses
