"""Backward feature projection in plain loops."""

import copy
import math

import torch

from tests.engine.twins import derpp


class Twin(derpp.Twin):
    def __init__(self, settings, stream):
        super().__init__(settings, stream)
        self.chance = self.own

    def begin_task(self, task):
        self.before = copy.deepcopy(self.model).eval()
        d = self.model.head.weight.shape[1]
        self.rows = [[(2 * u - 1) / math.sqrt(d) for u in row] for row in self.chance.uniform(d, d).tolist()]
        self.projector = torch.tensor(self.rows, requires_grad=True)
        self.speed = torch.zeros(d, d)

    def encode(self, x, replays):
        h, replays = super().encode(x, replays)
        self.seen_now = [(x, h), *((r["x"], r["h"]) for r in replays)]
        return h, replays

    def losses(self, logits, y, replays):
        if not self.seen_before:
            return super().losses(logits, y, replays)
        if replays and self.options.targets == "old":
            targets = []
            for x, label, stored in zip(replays[0]["x"], replays[0]["y"].tolist(), replays[0]["logits"], strict=True):
                with torch.no_grad():
                    targets.append(self.before(x[None])[0] if label in self.seen_before else stored)
            replays[0]["logits"] = torch.stack(targets)
        distances = []
        for images, features in self.seen_now:
            for x, h in zip(images, features, strict=True):
                with torch.no_grad():
                    old = self.before.encoder(x[None])[0]
                distances.append(((self.projector @ h - old) ** 2).sum().sqrt() / math.sqrt(len(h)))
        losses = super().losses(logits, y, replays)
        losses["projection"] = self.options.weight * sum(distances) / len(distances)
        return losses

    def gradients(self, losses):
        if "projection" in losses:
            (slope,) = torch.autograd.grad(losses["projection"], [self.projector], retain_graph=True)
            self.speed = self.options.projector_momentum * self.speed + slope
        gradients = super().gradients(losses)
        if "projection" in losses:
            self.projector = (self.projector - self.options.projector_lr * self.speed).detach().requires_grad_()
        return gradients
