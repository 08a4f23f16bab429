"""LUCIR in plain loops: cosines one by one."""

import copy

import torch
import torch.nn.functional as F

from tests.engine.twin import Plain


class Twin(Plain):
    def begin_task(self, task):
        self.teacher = copy.deepcopy(self.model).eval()

    def encode(self, x, replays):
        self.features, replays = super().encode(x, replays)
        return self.features, replays

    def losses(self, logits, y, replays):
        losses = {"new": F.cross_entropy(logits, y)}
        if replays:
            losses["replay"] = self.replayed(replays[0])
        if not self.seen_before:
            return losses
        pairs = [(self.features, self.new_x)] + [(r["h"], r["x"]) for r in replays]
        turned, fresh = [], sorted(self.now - self.seen_before)
        for h, x in pairs:
            with torch.no_grad():
                before = self.teacher.encode(x)
            turned += [1 - F.cosine_similarity(a, b, 0) for a, b in zip(h, before, strict=True)]
        weight = self.options.lam * (len(self.seen_before) / len(fresh)) ** 0.5
        losses["directions"] = weight * sum(turned) / len(turned)
        if replays:
            losses["margin"] = self.margin(replays[0], fresh)
        return losses

    def margin(self, replay, fresh):
        short, olds = 0 * replay["h"].sum(), 0
        for h, label in zip(replay["h"], replay["y"].tolist(), strict=True):
            if label in self.seen_before:
                cosine = {c: F.cosine_similarity(h, self.model.head.weight[c], 0) for c in [label, *fresh]}
                for c in sorted(fresh, key=lambda c: -cosine[c].item())[: self.options.rivals]:
                    short = short + max(0 * cosine[c], self.options.margin - cosine[label] + cosine[c])
                olds += 1
        return self.options.weight * short / max(olds, 1)
