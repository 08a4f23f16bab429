"""iCaRL in plain loops."""

import copy

import torch
import torch.nn.functional as F

from tests.engine.twin import Plain


class Twin(Plain):
    @property
    def stores(self):
        return self.options.form == "online"

    def ticket(self, slot, number):
        return number - (self.stores and self.memory[slot]["y"] not in self.seen_before)

    def __init__(self, settings, stream):
        super().__init__(settings, stream)
        self.came_before = []

    def begin_task(self, task):
        self.teacher = copy.deepcopy(self.model).eval()
        self.task_size, self.stored_size = len(task.train), len(self.memory)

    def losses(self, logits, y, replays):
        if self.stores:
            return self.online(logits, y, replays)
        if not replays:
            return {"new": self.bce(logits, self.new_x, y)}
        (replay,) = replays
        n, m = self.task_size, self.stored_size
        replayed = self.bce(self.model.head(replay["h"]), replay["x"], replay["y"])
        return {"new": n / (n + m) * self.bce(logits, self.new_x, y), "replay": m / (n + m) * replayed}

    def bce(self, logits, x, y):
        with torch.no_grad():
            teacher_outputs = self.teacher(x).sigmoid()
        losses = []
        for row, label in enumerate(y.tolist()):
            for c in sorted(self.seen_before | self.now):
                p = logits[row, c].sigmoid()
                target = float(c == label) if c in self.now else teacher_outputs[row, c]
                losses.append(-(target * p.log() + (1 - target) * (1 - p).log()))
        return sum(losses) / len(losses)

    def online(self, logits, y, replays):
        """Of every logit alone, summed over the classes."""
        wanted = [[float(c == label) for c in range(self.stream.classes)] for label in y.tolist()]
        losses = {"new": self.summed(logits, wanted) / len(y)}
        if replays and self.seen_before:
            (replay,) = replays
            rows = [i for i, label in enumerate(replay["y"].tolist()) if label in self.seen_before]
            with torch.no_grad():
                wanted = self.teacher(replay["x"]).sigmoid()[rows].tolist()
            losses["replay"] = self.summed(self.model.head(replay["h"])[rows], wanted) / max(1, len(rows))
        return losses

    def summed(self, logits, wanted):
        total = 0 * logits.sum()
        for row, targets in zip(logits, wanted, strict=True):
            for z, target in zip(row, targets, strict=True):
                total = total - target * z.sigmoid().log() - (1 - target) * (-z).sigmoid().log()
        return total

    def end_task(self, task):
        """Herding: each exemplar brings their mean nearest to the class's."""
        if self.stores:
            return
        room, exemplars = self.settings.memory.size // len(self.seen_before | self.now), []
        labels = self.stream.train.labels[task.train].tolist()
        for c in sorted(self.seen_before | self.now):
            if c in self.now:
                before, now = self.came_before.count(c), labels.count(c)
                stay = [row for row in self.memory if row["y"] == c][: room - round(room * now / (before + now))]
                of_class = [i for i in task.train.tolist() if self.stream.train.labels[i] == c]
                images = list(self.stream.train.images[of_class])
                with torch.no_grad():
                    h = F.normalize(self.model.encode(self.transform(images, augment=False)))
                chosen = []
                while len(chosen) < min(room - len(stay), len(images)):
                    free = [i for i in range(len(images)) if i not in chosen]
                    chosen.append(min(free, key=lambda i: (h[[*chosen, i]].mean(0) - h.mean(0)).norm().item()))
                both = stay, [{"image": images[i], "y": c} for i in chosen]
                placed = [((i + 0.5) / len(rows), k, row) for k, rows in enumerate(both) for i, row in enumerate(rows)]
                exemplars += [row for *_, row in sorted(placed, key=lambda one: one[:2])]
            else:
                exemplars += [row for row in self.memory if row["y"] == c][:room]
        self.memory = exemplars
        self.came_before += labels
