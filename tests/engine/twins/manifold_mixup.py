"""Manifold mixup in plain loops: the two stages of a small network, one batch after the other."""

import torch
import torch.nn.functional as F

from tests.engine.twin import Plain


class Twin(Plain):
    def encode(self, x, replays):
        if self.options.form == "adapted":
            return super().encode(x, replays)
        tickets = sorted(self.own.uniform(2 * self.options.alpha - 1).tolist())
        self.share = tickets[self.options.alpha - 1]
        bits = self.own.bits(len(x) + sum(len(r["x"]) for r in replays)).tolist()
        self.partner = sorted(range(len(bits)), key=lambda i: bits[i])
        layer = int(3 * self.own.uniform(1).item())
        batches = [x] + [r["x"] for r in replays]
        if layer == 0:
            batches = self.mixed(batches)
        for number, stage in enumerate(self.model.encoder.stages, 1):
            passed = []
            for place, batch in enumerate(batches):
                with self.moving_statistics((place > 0) == bool(replays and self.seen_before)):
                    passed.append(F.max_pool2d(stage(batch), 2, ceil_mode=True))
            batches = passed
            if layer == number:
                batches = self.mixed(batches)
        h, *others = [self.model.encoder.output(batch.flatten(1)) for batch in batches]
        for replay, features in zip(replays, others, strict=True):
            replay["h"] = features
        return h, replays

    def mixed(self, batches):
        rows = [row for batch in batches for row in batch]
        made = [self.share * row + (1 - self.share) * rows[self.partner[i]] for i, row in enumerate(rows)]
        return torch.stack(made).split([len(batch) for batch in batches])

    def losses(self, logits, y, replays):
        if self.options.form == "adapted":
            terms = {"new": F.cross_entropy(logits, y)}
            if replays:
                terms["replay"] = F.cross_entropy(self.model.head(self.adapted(replays[0])), replays[0]["y"])
            return terms
        labels = y.tolist() + [c for r in replays for c in r["y"].tolist()]
        scores = list(logits) + [row for r in replays for row in self.model.head(r["h"])]
        each = []
        for i, row in enumerate(scores):
            surprise = -row.log_softmax(0)
            each.append(self.share * surprise[labels[i]] + (1 - self.share) * surprise[labels[self.partner[i]]])
        terms = {"new": sum(each[: len(y)]) / len(y)}
        if replays:
            terms["replay"] = sum(each[len(y) :]) / (len(each) - len(y))
        return terms

    def adapted(self, replay):
        if not self.seen_before:
            return replay["h"]
        u = self.own.uniform(1).item()
        share, bits = max(u, 1 - u), self.own.bits(len(self.new_h)).tolist()
        order = sorted(range(len(bits)), key=lambda i: bits[i])
        rows = []
        for i, (h, label) in enumerate(zip(replay["h"], replay["y"].tolist(), strict=True)):
            other = self.new_h[order[i % len(order)]]
            rows.append(share * h + (1 - share) * other if label in self.seen_before else h)
        return torch.stack(rows)
