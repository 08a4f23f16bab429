"""Re-weighted ER in plain loops."""

from tests.engine.twin import Plain


class Twin(Plain):
    def begin_task(self, task):
        self.size, self.came = len(task.train), []

    def losses(self, logits, y, replays):
        self.came += y.tolist()
        stored = [row["y"] for row in self.memory]
        terms = {"new": (logits, y.tolist())}
        if replays:
            terms["replay"] = self.model.head(self.perturbed(replays[0])), replays[0]["y"].tolist()
        weight = {
            c: 1 / max(1, self.size * self.came.count(c) / len(self.came) + stored.count(c))
            for _, labels in terms.values()
            for c in labels
        }
        total = sum(weight[c] for _, labels in terms.values() for c in labels)
        return {
            name: len(terms)
            * sum(-weight[c] * row.log_softmax(0)[c] for row, c in zip(rows, labels, strict=True))
            / total
            for name, (rows, labels) in terms.items()
        }
