"""DER++ in plain loops."""

import torch.nn.functional as F

from tests.engine.twin import Plain


class Twin(Plain):
    draws = 2

    def losses(self, logits, y, replays):
        losses = {"new": F.cross_entropy(logits, y)}
        if replays:
            difference = self.model.head(replays[0]["h"]) - replays[0]["logits"]
            losses["logits"] = self.options.alpha * (difference**2).sum() / difference.numel()
            losses["replay"] = self.options.beta * self.replayed(replays[1])
        return losses
