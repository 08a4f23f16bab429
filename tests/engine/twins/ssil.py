"""SS-IL in plain loops: softmaxes over lists of classes."""

import copy

import torch

from tests.engine.twin import Plain


class Twin(Plain):
    tasks = ()

    def begin_task(self, task):
        self.teacher = copy.deepcopy(self.model).eval()
        self.tasks = [*self.tasks, sorted(set(task.classes) - self.seen_before)]

    def ticket(self, slot, number):
        return number - (self.memory[slot]["y"] not in self.seen_before)

    @property
    def together(self):
        return self.options.form == "official"

    def losses(self, logits, y, replays):
        official = self.options.form == "official"
        new = [self.surprise(row, label, self.now) for row, label in zip(logits, y.tolist(), strict=True)]
        if not replays or not self.seen_before:
            return {"new": sum(new) / len(new)}
        (replay,) = replays
        rows = [i for i, label in enumerate(replay["y"].tolist()) if label in self.seen_before]
        moved = self.model.head(self.perturbed(replay))
        old = [self.surprise(moved[i], replay["y"][i].item(), self.seen_before) for i in rows]
        n, m = (len(new) + len(rows),) * 2 if official else (len(new), max(1, len(rows)))
        losses = {"new": sum(new) / n, "replay": sum(old, 0 * moved.sum()) / m}
        if self.options.distil:
            distilled = self.kl(self.model.head(replay["h"]), replay["x"], rows)
            if official:
                distilled = 4 * (distilled + self.kl(logits, self.new_x, range(len(y))))
            losses["distil"] = distilled / m
        return losses

    def surprise(self, row, label, classes):
        return -row[label] + torch.logsumexp(torch.stack([row[c] for c in sorted(classes)]), 0)

    def kl(self, logits, x, rows):
        with torch.no_grad():
            teacher_logits = self.teacher(x)
        total = 0 * logits.sum()
        for i in rows:
            for classes in self.tasks[:-1]:
                p, q = (torch.softmax(z[i][classes] / 2, 0) for z in (teacher_logits, logits))
                total = total + (p * (p / q).log()).sum()
        return total
