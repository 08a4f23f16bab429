"""X-DER in plain loops."""

from copy import deepcopy

import torch
import torch.nn.functional as F

from tests.engine.twin import Plain


class Twin(Plain):
    draws = 2
    stores = False

    def __init__(self, settings, stream):
        super().__init__(settings, stream)
        self.chance, self.groups, self.came_before = self.own, [], []

    def begin_task(self, task):
        self.groups.append(self.now - self.seen_before)
        self.counts = {}

    def draw(self):
        before = self.drawing.count.clone()
        replay = super().draw()
        self.drawing.count.copy_(before)  # the same tickets again, to know the slots
        tickets = self.drawing.uniform(self.settings.memory.size, dtype=torch.float64).tolist()
        order = sorted(range(len(self.memory)), key=lambda i: tickets[i], reverse=True)
        replay["slots"] = order[: len(replay["y"])]
        return replay

    def among(self, logits, y, classes):
        classes = sorted(classes)
        return F.cross_entropy(logits[:, classes], torch.tensor([classes.index(c) for c in y.tolist()]))

    def lacking(self, row, own):
        """What a sample lacks of the margin."""
        future = set(range(len(row))) - self.seen_before - self.now
        if not future:
            return []
        lack = max(row[c] for c in future) + self.options.margin - max(row[c] for c in own)
        return [lack] if lack > 0 else []

    def losses(self, logits, y, replays):
        losses = {"new": self.among(logits, y, self.now)}
        lacks = [lack for row in logits for lack in self.lacking(row, self.now)]
        if replays:
            dark, labelled = replays
            logits_of = [self.model.head(replay["h"]) for replay in replays]
            losses["logits"] = self.options.alpha * ((logits_of[0] - dark["logits"]) ** 2).mean()
            moved = self.model.head(self.perturbed(labelled))
            losses["replay"] = self.options.beta * self.among(moved, labelled["y"], self.seen_before)
            for replay, output in zip(replays, logits_of, strict=True):
                chances = self.chance.uniform(len(output)).tolist()
                for slot, row, label, u in zip(replay["slots"], output, replay["y"].tolist(), chances, strict=True):
                    own = next(group for group in self.groups if label in group)
                    lacks += self.lacking(row, own)
                    self.counts[slot] = self.counts.get(slot, 0) + 1
                    if u * self.counts[slot] < 1:
                        stored = self.memory[slot]["logits"]
                        later = set(range(len(row))) - self.seen_before
                        self.memory[slot]["logits"] = self.implant(stored, row.detach(), label, later)
        if self.options.past and self.seen_before:
            losses["past"] = self.above_the_past(logits)
        losses["future"] = self.options.eta * sum(lacks) / len(lacks) if lacks else 0 * logits.sum()
        return losses

    def above_the_past(self, logits):
        lacks = []
        for row in logits if self.seen_before - self.now else ():
            past = max(row[c].item() for c in self.seen_before - self.now)
            lacks.append(past + self.options.margin - max(row[c] for c in self.now))
        lacks = [lack for lack in lacks if lack > 0]
        return self.options.eta * sum(lacks) / len(lacks) if lacks else 0 * logits.sum()

    def implant(self, stored, row, label, classes):
        own, highest = stored[label].item(), max((row[c].item() for c in classes), default=0)
        scale = self.options.gamma * max(own, 0) / highest if highest > max(own, 0) else 1
        result = stored.clone()
        for c in classes:
            result[c] = scale * row[c]
        return result

    def end_task(self, task):
        size, seen = self.settings.memory.size, self.seen_before | self.now
        labels = self.stream.train.labels[task.train].tolist()
        classes = sorted(set(labels))
        room, old, quota = size // len(seen), [], {}
        for c in sorted(self.seen_before):
            before, now = self.came_before.count(c), labels.count(c)
            mine = [row for row in self.memory if row["y"] == c][: room - round(room * now / (before + now))]
            quota[c] = min(now, room - len(mine))
            old += mine
        first = [c for c in classes if c not in self.seen_before]
        luck = self.chance.permutation(len(first)).tolist()
        left = size - len(old) - sum(quota.values())
        for place, c in enumerate(first):
            quota[c] = left // len(first) + (luck[place] < left % len(first))
        fresh = []
        for c in classes:
            mine = [i for i, label in zip(task.train.tolist(), labels, strict=True) if label == c]
            order = self.chance.permutation(len(mine)).tolist()
            fresh += [{"image": self.stream.train.images[mine[i]], "y": c} for i in order[: quota[c]]]
        old, fresh = self.mixed(old), self.mixed(fresh)
        later = set(range(self.stream.classes)) - self.seen_before
        for row, logits in zip(old, self.logits_of([row["image"] for row in old]), strict=True):
            row["logits"] = self.implant(row["logits"], logits, row["y"], later)
        for row, logits in zip(fresh, self.logits_of([row["image"] for row in fresh]), strict=True):
            row["logits"] = self.implant(logits, logits, row["y"], self.seen_before - self.now)
        self.memory = old + fresh
        if self.seen_before & self.now:
            self.memory = self.mixed(self.memory)
        self.came_before += labels

    def mixed(self, rows):
        return [rows[i] for i in self.chance.permutation(len(rows)).tolist()]

    def logits_of(self, images):
        """Normalised together, by a copy, whose running statistics nobody needs."""
        if not images:
            return []
        with torch.no_grad():
            return deepcopy(self.model).train()(self.transform(torch.stack(images), augment=False))
