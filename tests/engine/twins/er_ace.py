"""ER-ACE in plain loops."""

import torch.nn.functional as F

from tests.engine.twin import Plain


class Twin(Plain):
    highest = 0

    def losses(self, logits, y, replays):
        self.highest = max(self.highest, *y.tolist())
        known = self.seen_before | self.now
        if self.options.mask == "official":
            known = set(range(self.highest))
        if self.seen_before:
            logits = logits.clone()
            for c in known - set(y.tolist()):
                logits[:, c] = -1e30
        return {"new": F.cross_entropy(logits, y)} | ({"replay": self.replayed(replays[-1])} if replays else {})
