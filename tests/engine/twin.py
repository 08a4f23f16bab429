"""A run in plain PyTorch that is slow and easy to believe: lists for the memory, loops, losses spelled out.

It takes from moca the network, the random numbers and the vMF sampler only. Every perturbation has its few lines here,
every learner a file of its own in `twins/`.
"""

import copy
import importlib
import keyword
import math
from contextlib import contextmanager

import torch
import torch.nn.functional as F

from moca import sphere
from moca.models import build_model
from moca.random import Random


def twin(settings, stream):
    """The run that the settings describe."""
    return twin_of(settings.learner.name)(settings, stream)


def twin_of(learner):
    """The twin of a learner, by name."""
    return importlib.import_module(f"tests.engine.twins.{learner}{'_' * keyword.iskeyword(learner)}").Twin


class Plain:
    """A run, but for the loss: `losses` says it; the rest has defaults that a learner's twin may replace."""

    draws = 1
    stores = True
    all_at_once = False
    outputs = 1
    settings_for_tests = {}
    """Such as a smaller learning rate, where rounding would grow too fast."""

    def __init__(self, settings, stream):
        self.settings, self.stream = settings, stream
        self.options = settings.learner
        self.model = build_model(settings.model, settings.head, stream.shape, stream.classes, 0, self.outputs)
        self.model.train()
        self.memory, self.offered = [], 0
        self.store, self.drawing = Random(0, "memory/store"), Random(0, "memory/draw")
        self.noise, self.augment, self.own = Random(0, "perturb"), Random(0, "augment"), Random(0, "learner")
        self.history, self.seen_before, self.now = [], set(), set()
        self.class_means, self.velocity, self.moments = {}, None, None

    def run(self):
        s = self.settings
        tasks = self.stream.merged() if self.all_at_once else self.stream
        for number, task in enumerate(tasks):
            self.seen_before |= self.now
            self.now = set(task.classes)
            self.begin_task(task)
            if s.optimiser.anew:
                self.velocity = self.moments = None
            for epoch in range(s.epochs):
                self.offers = epoch == 0 or s.offer == "every_epoch"
                self.lr = s.lr * self.factor(number, epoch, len(tasks))
                bits = Random(0, f"order/{number}/{epoch}").bits(len(task.train)).tolist()
                order = [task.train[i].item() for i in sorted(range(len(bits)), key=lambda i: bits[i])]
                while order:
                    size = len(order) if len(order) == s.batch + 1 > 2 else s.batch  # none is left alone
                    chosen, order = order[:size], order[size:]
                    self.step(chosen)
            self.model.eval()
            self.end_task(task)
            self.model.train()
        return self

    def see(self, x, y):
        return x, y

    def begin_task(self, task):
        pass

    def end_task(self, task):
        pass

    def losses(self, logits, y, replays):
        """The terms of the loss by name, of the new logits and labels and of what was drawn."""
        raise NotImplementedError

    def factor(self, task, epoch, tasks):
        schedule, epochs = self.settings.schedule, self.settings.epochs
        if not schedule.anew:
            epoch, epochs = task * epochs + epoch, tasks * epochs
        if schedule.name == "steps":
            return math.prod(schedule.by for end in schedule.at if epoch >= end)
        return (1 + math.cos(math.pi * epoch / epochs)) / 2 if schedule.name == "cosine" else 1

    def step(self, chosen):
        raw, y = self.stream.train.images[chosen], self.stream.train.labels[chosen]
        x, seen = self.see(self.transform(raw), y)
        replays = [self.draw() for _ in range(self.draws)] if self.memory else []
        h, replays = self.encode(x, replays)
        self.new_x, self.new_h, self.new_y = x, h.detach(), y
        logits = self.model.head(h)
        losses = self.losses(logits, seen, replays)
        self.descend(self.gradients(losses))
        self.history.append({name: loss.item() for name, loss in losses.items()})
        if self.stores and self.offers:
            for row in zip(raw, y.tolist(), logits.detach(), strict=True):
                self.offer({"image": row[0], "y": row[1], "logits": row[2]})

    def gradients(self, losses):
        return torch.autograd.grad(sum(losses.values()), list(self.model.parameters()))

    def descend(self, gradients):
        parameters, s = list(self.model.parameters()), self.settings.optimiser
        with torch.no_grad():
            if s.name != "adamw":
                gradients = [g + s.weight_decay * p for g, p in zip(gradients, parameters, strict=True)]
            if s.name == "sgd":
                if self.velocity is None:
                    self.velocity = [g.clone() for g in gradients]
                else:
                    self.velocity = [s.momentum * v + g for v, g in zip(self.velocity, gradients, strict=True)]
                steps = self.velocity
            else:
                steps = self.adam(gradients)
            for parameter, step in zip(parameters, steps, strict=True):
                if s.name == "adamw":
                    parameter *= 1 - self.lr * s.weight_decay
                parameter -= self.lr * step

    def adam(self, gradients):
        s = self.settings.optimiser
        if self.moments is None:
            self.moments = 0, [torch.zeros_like(g) for g in gradients], [torch.zeros_like(g) for g in gradients]
        number, first, second = self.moments
        first = [s.beta1 * m + (1 - s.beta1) * g for m, g in zip(first, gradients, strict=True)]
        second = [s.beta2 * v + (1 - s.beta2) * g * g for v, g in zip(second, gradients, strict=True)]
        self.moments = number + 1, first, second
        one, two = 1 - s.beta1 ** (number + 1), 1 - s.beta2 ** (number + 1)
        return [m / one / ((v / two).sqrt() + s.eps) for m, v in zip(first, second, strict=True)]

    def transform(self, images, augment=True):
        if not (self.settings.augment and augment):
            return torch.stack([(i / 255 - 0.3) / 0.25 for i in images])
        assert (self.stream.protocol.crop_padding, self.stream.protocol.flip) == (1, True)
        draw, result = self.augment.uniform(3, len(images)).tolist(), []
        for image, down, right, mirror in zip(images, *draw, strict=True):
            top, left, side = int(3 * down), int(3 * right), image.shape[-1]
            crop = F.pad(image, (1, 1, 1, 1))[:, top : top + side, left : left + side]
            result.append(((crop.flip(2) if mirror < 0.5 else crop) / 255 - 0.3) / 0.25)
        return torch.stack(result)

    def draw(self):
        count = self.settings.replay_batch or self.settings.batch
        tickets = self.drawing.uniform(self.settings.memory.size, dtype=torch.float64).tolist()
        slots = sorted(range(len(self.memory)), key=lambda i: self.ticket(i, tickets[i]), reverse=True)[:count]
        rows = [self.memory[i] for i in slots]
        return {
            "x": self.transform(torch.stack([r["image"] for r in rows])),
            "y": torch.tensor([r["y"] for r in rows]),
            "image": [r["image"] for r in rows],
            "logits": torch.stack([r["logits"] for r in rows]) if "logits" in rows[0] else None,
        }

    def ticket(self, slot, number):
        """Those with the highest are drawn."""
        return number

    together = False
    """Whether new and replayed samples are one batch."""

    def encode(self, x, replays):
        if self.together and replays:
            (replay,) = replays
            h = self.model.encoder(torch.cat([x, replay["x"]]))
            replay["h"] = h[len(x) :]
            return h[: len(x)], [replay]
        after_the_first = bool(replays and self.seen_before)
        with self.moving_statistics(not after_the_first):
            h = self.model.encoder(x)
        for replay in replays:
            with self.moving_statistics(after_the_first):
                replay["h"] = self.model.encoder(replay["x"])
        return h, replays

    @contextmanager
    def moving_statistics(self, moving):
        """Of BatchNorm: those of the new batch in the first task, later those of what is replayed."""
        assert self.settings.bn_passes == "replay"
        layers = [layer for layer in self.model.modules() if isinstance(layer, torch.nn.BatchNorm2d)]
        kept = [layer.momentum for layer in layers]
        for layer in layers:
            layer.momentum *= moving
        yield
        for layer, momentum in zip(layers, kept, strict=True):
            layer.momentum = momentum

    def replayed(self, replay):
        return F.cross_entropy(self.model.head(self.perturbed(replay)), replay["y"])

    def perturbed(self, replay):
        perturb, h = self.settings.perturb, replay["h"]
        skipped = self.settings.short_batch == "skip" and len(replay["y"]) != len(self.new_y)
        if perturb.name == "none" or not self.seen_before or skipped:
            return h
        with torch.no_grad():
            n = getattr(self, f"direction_of_{perturb.name}")(replay).detach()
        rows = []
        for feature, way, label in zip(h, n, replay["y"].tolist(), strict=True):
            if label in self.seen_before:
                length = feature.norm()
                way = way / way.norm() if way.norm() > 0 else way
                moved = feature / length + perturb.lam * way
                feature = length * moved / moved.norm()
            rows.append(feature)
        return torch.stack(rows)

    def paired(self, rows, replay):
        return torch.stack([rows[i % len(rows)] for i in range(len(replay["y"]))])

    def direction_of_gaussian(self, replay):
        return self.noise.normal(*replay["h"].shape)

    def direction_of_vmf(self, replay):
        return sphere.sample_vmf(F.normalize(replay["h"]), self.settings.perturb.kappa, self.noise)

    def dropout(self, h):
        return h * (self.noise.uniform(*h.shape) >= self.settings.perturb.rate)

    def direction_of_doa_old(self, replay):
        return self.dropout(replay["h"])

    def direction_of_doa_new(self, replay):
        return self.paired(self.dropout(self.new_h), replay)

    def direction_of_add_new(self, replay):
        return self.paired(self.new_h, replay)

    def direction_of_minus_new(self, replay):
        return -self.paired(self.new_h, replay)

    def direction_of_fgsm(self, replay):
        with torch.enable_grad():
            h = replay["h"].detach().requires_grad_()
            F.cross_entropy(self.model.head(h), self.outputs * replay["y"]).backward(inputs=[h])
        return h.grad.sign()

    def direction_of_mrfa(self, replay):
        ways = []
        with torch.enable_grad():
            for feature, label in zip(replay["h"].detach(), replay["y"].tolist(), strict=True):
                h = feature.clone().requires_grad_()
                (-self.model.head(h[None])[0].log_softmax(0)[label]).backward(inputs=[h])
                ways.append(h.grad)
        return torch.stack(ways)

    def direction_of_vt(self, replay):
        labels, ways = self.new_y.tolist(), []
        for c in set(labels):
            mean = torch.stack([h for h, y in zip(self.new_h, labels, strict=True) if y == c]).mean(0)
            self.class_means[c] = 0.9 * self.class_means[c] + 0.1 * mean if c in self.class_means else mean
        for h, y in zip(self.new_h, labels, strict=True):
            way = h - self.class_means[y]
            ways.append(way if way.norm() > 1e-5 * h.norm() else torch.zeros_like(way))
        return self.paired(torch.stack(ways), replay)

    def direction_of_wap(self, replay):
        """A copy of the network makes one step towards calling the old samples new, on these samples alone."""
        proxy, labels = copy.deepcopy(self.model), self.paired(self.new_y, replay)
        old = [i for i, label in enumerate(replay["y"].tolist()) if label in self.seen_before]
        if old:
            with torch.enable_grad():
                loss = F.cross_entropy(proxy.head(proxy.encoder(replay["x"][old])), labels[old])
                loss.backward()
            for parameter in proxy.encoder.parameters():
                parameter.data -= self.settings.perturb.step_size * self.lr * parameter.grad
        return proxy.encoder(replay["x"])

    def offer(self, row):
        u, size = self.store.uniform(1, dtype=torch.float64).item(), self.settings.memory.size
        if len(self.memory) < size:
            self.memory.append(row)
        elif (slot := int(u * (self.offered + 1))) < size:
            self.memory[slot] = row
        self.offered += 1
