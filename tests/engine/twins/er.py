"""ER in plain loops."""

import torch.nn.functional as F

from tests.engine.twin import Plain


class Twin(Plain):
    def losses(self, logits, y, replays):
        losses = {"new": F.cross_entropy(logits, y)}
        if replays:
            losses["replay"] = self.replayed(replays[-1])
            if self.together:
                n, m = len(y), len(replays[-1]["y"])
                losses = {"new": n / (n + m) * losses["new"], "replay": m / (n + m) * losses["replay"]}
        return losses

    @property
    def together(self):
        return self.options.passes == "concatenated"
