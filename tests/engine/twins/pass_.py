"""PASS in plain loops."""

import copy

import torch

from tests.engine.twin import Plain


class Twin(Plain):
    draws = 0
    stores = False
    settings_for_tests = {
        "learner": "pass:temperature=1,prototypes=1,distillation=0.1",
        "lr": 0.001,
        "optimiser": "sgd",
    }

    def __init__(self, settings, stream):
        super().__init__(settings, stream)
        self.prototypes, self.radius = {}, None
        self.untrained = copy.deepcopy(self.model.head)

    @property
    def outputs(self):
        return 4 if self.options.rotations else 1

    def begin_task(self, task):
        self.teacher = copy.deepcopy(self.model).eval()
        for c in self.now - self.seen_before:
            for ours, at_first in zip(self.model.head.parameters(), self.untrained.parameters(), strict=True):
                if ours.dim():
                    for row in range(self.outputs * c, self.outputs * (c + 1)):
                        ours.data[row] = at_first.data[row]

    def see(self, x, y):
        if not self.options.rotations:
            return x, y
        turned = [
            (torch.rot90(image, k, (1, 2)), 4 * label + k) for k in range(4) for image, label in zip(x, y, strict=True)
        ]
        images, labels = zip(*turned, strict=True)
        self.turned = torch.stack(images)
        return self.turned, torch.stack(labels)

    def losses(self, logits, y, replays):
        losses = {"new": self.cross_entropy(logits, y.tolist())}
        if self.seen_before:
            count, old = len(self.new_y), sorted(self.seen_before)
            labels = [old[int(u * len(old))] for u in self.own.uniform(count, dtype=torch.float64).tolist()]
            p = torch.stack([self.prototypes[c] for c in labels])
            everything, self.new_h = self.new_h, self.new_h[:count]
            if self.settings.perturb.name != "none":
                p = self.perturbed({"h": p, "y": torch.tensor(labels)})
            elif self.options.noise == "radius":
                p = p + self.radius * self.own.normal(*p.shape)
            loss = self.cross_entropy(self.model.head(p), [self.outputs * c for c in labels])
            with torch.no_grad():
                before = self.teacher.encode(self.new_x)
            difference = self.h - before
            losses["prototypes"] = self.options.prototypes * loss
            losses["distillation"] = self.options.distillation * (difference**2).sum().sqrt()
            self.new_h = everything
        return losses

    def encode(self, x, replays):
        self.h, replays = super().encode(x, replays)
        return self.h, replays

    def cross_entropy(self, logits, labels):
        """Cross-entropy among the outputs of the classes seen so far."""
        known = [self.outputs * c + k for c in sorted(self.seen_before | self.now) for k in range(self.outputs)]
        each = [
            torch.logsumexp(row[known] / self.options.temperature, 0) - row[label] / self.options.temperature
            for row, label in zip(logits, labels, strict=True)
        ]
        return sum(each) / len(each)

    def end_task(self, task):
        labels = self.stream.train.labels[task.train].tolist()
        with torch.no_grad():
            h = self.model.encode(self.transform(self.stream.train.images[task.train]))
        variances = []
        for c in sorted(self.now - self.seen_before):
            of_class = torch.stack([row for row, label in zip(h, labels, strict=True) if label == c])
            self.prototypes[c] = of_class.mean(0)
            variances.append(of_class.T.cov().diagonal().mean().item())
        if self.radius is None:
            self.radius = (sum(variances) / len(variances)) ** 0.5
