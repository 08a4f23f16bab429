"""EWC in plain loops: a backward pass a sample, a term a weight."""

import torch
import torch.nn.functional as F

from tests.engine.twins import finetune


class Twin(finetune.Twin):
    fisher = anchor = None

    def losses(self, logits, y, replays):
        losses = super().losses(logits, y, replays)
        if self.fisher is not None:
            now = torch.cat([p.flatten() for p in self.model.parameters()])
            losses["pull"] = self.options.lam / 2 * (self.fisher @ (now - self.anchor) ** 2)
        return losses

    def end_task(self, task):
        parameters, squares = list(self.model.parameters()), []
        for i in task.train.tolist():
            x = self.transform([self.stream.train.images[i]], augment=False)
            loss = F.cross_entropy(self.model(x), self.stream.train.labels[i : i + 1])
            squares.append(torch.cat([g.flatten() for g in torch.autograd.grad(loss, parameters)]) ** 2)
        mean = sum(squares) / len(squares)
        self.fisher = mean if self.fisher is None else self.options.gamma * self.fisher + mean
        self.anchor = torch.cat([p.detach().flatten().clone() for p in parameters])
