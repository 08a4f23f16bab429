"""A teacher around another learner's twin, in plain loops."""

import copy
import importlib
import math

import torch

FORMS = {"mean": (0.15, 0.999, 1), "cls": (0.15, 0.999, 0.7), "mkd": (5.5, 0.99, 1)}


def Twin(settings, stream):
    inner = importlib.import_module(f"tests.engine.twins.{settings.learner.of.partition(':')[0]}").Twin
    return type("Taught", (Taught, inner), {})(settings, stream)


class Taught:
    def __init__(self, settings, stream):
        super().__init__(settings, stream)
        mine = settings.learner
        self.form, self.temperature = mine.form, mine.temperature
        given = (mine.weight, mine.decay, mine.rate)
        self.weight, self.decay, self.rate = (
            a if a is not None else b for a, b in zip(given, FORMS[mine.form], strict=True)
        )
        self.plastic_rate = mine.plastic_rate
        self.options = mine.make().inner
        self.averages = [copy.deepcopy(self.model) for _ in range(2 if self.form == "cls" else 1)]
        self.luck, self.done = self.own, 0

    def losses(self, logits, y, replays):
        losses = super().losses(logits, y, replays)
        rows = []
        if self.form == "mkd":
            rows += self.rows(logits, self.new_x, y)
        for replay in replays:
            rows += self.rows(self.model.head(replay["h"]), replay["x"], replay["y"])
        if rows:
            losses["teacher"] = self.weight * sum(rows) / len(rows)
        return losses

    def rows(self, logits, x, y):
        """How far the student's logits are from those of the teacher that is best at each sample."""
        with torch.no_grad():
            taught = [copy.deepcopy(average)(x) for average in self.averages]  # statistics of its own are not to move
        for row, label in enumerate(y.tolist()):
            best = max(reversed(taught), key=lambda t: t[row].softmax(0)[label].item())[row]
            if self.form == "mkd":
                p, q = (best / self.temperature).softmax(0), (logits[row] / self.temperature).softmax(0)
                yield self.temperature**2 * sum(a * (math.log(a) - b.log()) for a, b in zip(p, q, strict=True))
            else:
                yield sum((a - b) ** 2 for a, b in zip(logits[row], best, strict=True)) / len(best)

    def gradients(self, losses):
        if "teacher" in losses:
            losses = {**losses, "new": losses["new"] + losses["teacher"]}
            del losses["teacher"]
        return super().gradients(losses)

    def descend(self, gradients):
        super().descend(gradients)
        keep = min(1 - 1 / (self.done + 1), self.decay)
        self.done += 1
        chances = zip(self.averages, self.luck.uniform(2).tolist(), (self.rate, self.plastic_rate), strict=False)
        for average, number, rate in chances:
            if number < rate:
                for slow, fast in zip(average.state_dict().values(), self.model.state_dict().values(), strict=True):
                    if slow.is_floating_point():
                        slow.copy_(keep * slow + (1 - keep) * fast)
