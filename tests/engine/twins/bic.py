"""BiC in plain loops. The correction is fitted in test_bic; in a run of two tasks it comes after the last step."""

import copy

import torch

from tests.engine.twin import Plain


class Twin(Plain):
    def begin_task(self, task):
        self.teacher = copy.deepcopy(self.model).eval()

    def held(self, image):
        return sum(image.flatten().tolist()) % self.options.hold == 0

    def ticket(self, slot, number):
        return number - self.held(self.memory[slot]["image"])

    def step(self, chosen):
        self.out = [self.held(image) for image in self.stream.train.images[chosen]]
        super().step(chosen)

    def losses(self, logits, y, replays):
        seen = self.seen_before | self.now
        share = len(self.seen_before) / len(seen)
        parts = [("new", logits, logits, self.new_x, y, self.out)]
        for r in replays:
            moved, clean = self.model.head(self.perturbed(r)), self.model.head(r["h"])
            parts.append(("replay", moved, clean, r["x"], r["y"], [self.held(image) for image in r["image"]]))
        losses, distilled = {}, 0
        for name, moved, clean, x, labels, out in parts:
            rows = [i for i in range(len(labels)) if not out[i]]
            surprise = sum((-moved[i].log_softmax(0)[labels[i]] for i in rows), 0 * moved.sum())
            losses[name] = (1 - share) * surprise / max(1, len(rows))
            if self.seen_before:
                distilled = distilled + self.kl(clean, x, rows) / max(1, len(rows))
        return losses | ({"distil": share * distilled} if self.seen_before else {})

    def kl(self, logits, x, rows):
        old, total = sorted(self.seen_before), 0 * logits.sum()
        with torch.no_grad():
            teacher_logits = self.teacher(x)
        for i in rows:
            p, q = (torch.softmax(z[i][old] / self.options.temperature, 0) for z in (teacher_logits, logits))
            total = total + (p * (p / q).log()).sum()
        return total
