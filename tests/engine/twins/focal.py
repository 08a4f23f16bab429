"""ER with the focal loss in plain loops."""

from tests.engine.twin import Plain


class Twin(Plain):
    def losses(self, logits, y, replays):
        losses = {"new": self.focal(logits, y)}
        if replays:
            losses["replay"] = self.focal(self.model.head(self.perturbed(replays[0])), replays[0]["y"])
        return losses

    def focal(self, logits, y):
        right = [row[label] for row, label in zip(logits.softmax(1), y.tolist(), strict=True)]
        return sum(-((1 - p) ** self.options.gamma) * p.log() for p in right) / len(y)
