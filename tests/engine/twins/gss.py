"""GSS in plain loops: a backward pass a sample, and gradients as long rows."""

import math

import torch
import torch.nn.functional as F

from tests.engine.twins import er


class Twin(er.Twin):
    stores = False
    scores = ()

    def step(self, chosen):
        super().step(chosen)
        raw, y = self.stream.train.images[chosen], self.stream.train.labels[chosen]
        self.model.eval()
        self.keep([{"image": image, "y": label} for image, label in zip(raw, y.tolist(), strict=True)])
        self.model.train()

    def keep(self, new):
        size, before = self.settings.memory.size, len(self.memory)
        self.scores = list(self.scores)
        tickets = self.store.uniform(size, dtype=torch.float64).tolist()
        race = self.store.uniform(size, dtype=torch.float64).tolist()
        numbers = self.store.uniform(len(new)).tolist()
        compared = sorted(range(before), key=lambda i: tickets[i], reverse=True)[: self.options.comparisons]
        known = [self.gradient([self.memory[i]]) for i in compared]
        together = self.likeness(self.gradient(new), known)
        met = sorted(range(before), key=lambda i: -math.log(race[i]) / max(self.scores[i], 1e-300))
        for place, (row, number) in enumerate(zip(new, numbers, strict=True)):
            if len(self.memory) < size:
                self.memory.append(row)
                self.scores.append(together)
            elif together < 1 and place < len(met):
                slot, own = met[place], self.likeness(self.gradient([row]), known)
                if number < self.scores[slot] / (self.scores[slot] + own):
                    self.memory[slot], self.scores[slot] = row, own

    def likeness(self, gradient, known):
        return 1 + max(F.cosine_similarity(gradient, other, dim=0).item() for other in known) if known else 0.1

    def gradient(self, rows):
        x = self.transform([row["image"] for row in rows], augment=False)
        loss = F.cross_entropy(self.model(x), torch.tensor([row["y"] for row in rows]))
        return torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(self.model.parameters()))])
