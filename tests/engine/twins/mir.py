"""MIR in plain loops."""

import copy

import torch
import torch.nn.functional as F

from tests.engine.twins import agem


class Twin(agem.Twin):
    def step(self, chosen):
        """The new batch is seen before anything is drawn: its augmentation is put aside for the step."""
        raw, y = self.stream.train.images[chosen], self.stream.train.labels[chosen]
        before = self.augment.count.clone()
        self.coming = self.transform(raw), y
        self.augment.count.copy_(before)
        super().step(chosen)

    def draw(self):
        if not self.seen_before:
            return super().draw()
        count, size = self.settings.replay_batch or self.settings.batch, self.settings.memory.size
        tickets = self.drawing.uniform(size, dtype=torch.float64).tolist()
        slots = sorted(range(len(self.memory)), key=lambda i: self.ticket(i, tickets[i]), reverse=True)
        pool = slots[: max(count, self.options.candidates)]
        old = [i for i in pool if self.memory[i]["y"] in self.seen_before]
        harmed = dict(zip(old, self.interference(old), strict=True)) if old else {}
        others = [i for i in pool if i not in harmed]
        rows = [self.memory[i] for i in (sorted(old, key=harmed.get, reverse=True) + others)[:count]]
        images, labels = torch.stack([r["image"] for r in rows]), torch.tensor([r["y"] for r in rows])
        return {"x": self.transform(images), "y": labels, "logits": None}

    def interference(self, slots):
        """A copy of the network makes the step; both are asked in training mode."""
        x = self.transform([self.memory[i]["image"] for i in slots], augment=False)
        y = torch.tensor([self.memory[i]["y"] for i in slots])
        before, after = copy.deepcopy(self.model), copy.deepcopy(self.model)
        F.cross_entropy(after(self.coming[0]), self.coming[1]).backward()
        for parameter in after.parameters():
            parameter.data -= self.lr * parameter.grad
        with torch.no_grad():
            losses = [[F.cross_entropy(z, c).item() for z, c in zip(m(x), y, strict=True)] for m in (after, before)]
        return [a - b for a, b in zip(*losses, strict=True)]

    def losses(self, logits, y, replays):
        losses = super().losses(logits, y, replays)
        return {"replay" if name == "reference" else name: loss for name, loss in losses.items()}

    def gradients(self, losses):
        return torch.autograd.grad(sum(losses.values()), list(self.model.parameters()))
