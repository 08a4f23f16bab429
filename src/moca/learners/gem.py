"""GEM: gradient episodic memory; no step may raise the loss on the stored samples of any past task.

Paper: Lopez-Paz, Ranzato, NeurIPS 2017, arXiv 1706.08840.
"""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from moca.batch import Batch
from moca.learners.base import Learner, Losses
from moca.models.batch_norm.batches import batches_apart
from moca.parts import option

_RIDGE = 1e-3
"""Added to the diagonal of GG', so that the quadratic program has a unique solution."""


class GEM(Learner):
    """The gradient of the new loss, projected to the nearest one that conflicts with no past task's gradient."""

    gamma: float = option(0.5, "least weight of every past task's gradient in a projected step", ge=0)

    draws = 0
    static = False
    recipes = {"offline": {"lr": 0.03}}

    def losses(self, new: Batch, *replays: Batch) -> Losses:
        """CE(new), and for each past task CE over all of its stored samples."""
        losses = {"new": F.cross_entropy(new.logits, new.y)}
        stored = self.memory.all() if self.memory is not None and not self.first_task else {}
        for task in range(int(self.number) if stored else 0):
            rows = self.came[stored["y"]] == task
            if rows.any():
                replay = self._replayed(stored["image"][rows], stored["y"][rows])
                logits = self.model.classify(self.perturbed(replay, new))
                losses[f"task {task + 1}"] = F.cross_entropy(logits, replay.y)
        return losses

    def _replayed(self, images: torch.Tensor, y: torch.Tensor) -> Batch:
        """Encode stored samples in a forward pass of their own, which updates BatchNorm's statistics like any other."""
        x = self.augment(images)
        with batches_apart([len(x)]):
            return Batch(image=images, x=x, y=y, features=self.encode(x), old=self.is_old(y))

    def update(self, losses: Losses, optimiser: torch.optim.Optimizer) -> None:
        """g <- g + G'v if any entry of Gg is negative; the rows of G are the past tasks' gradients."""
        parameters = [p for p in self.model.parameters() if p.requires_grad]
        past = [
            torch.autograd.grad(loss, parameters, materialize_grads=True)
            for name, loss in losses.items()
            if name != "new"
        ]
        optimiser.zero_grad()
        losses["new"].backward()
        trained = [i for i, p in enumerate(parameters) if p.grad is not None]
        gradient = [p.grad for p in parameters if p.grad is not None]
        references = [[row[i] for i in trained] for row in past]
        products = _products([gradient, *references])
        if (products[0, 1:] < 0).any() and np.isfinite(products).all():
            for v, reference in zip(
                multipliers(products[1:, 1:], products[0, 1:], self.gamma), references, strict=True
            ):
                torch._foreach_add_(gradient, reference, alpha=float(v))
        optimiser.step()


def _products(rows: list[list[torch.Tensor]]) -> Any:
    """All pairwise dot products, on the host and in float64, so that nearly parallel gradients stay distinct."""
    total = torch.zeros(len(rows), len(rows), dtype=torch.float64, device=rows[0][0].device)
    for parts in zip(*rows, strict=True):
        flat = torch.stack([part.flatten() for part in parts]).double()
        total += flat @ flat.T
    return total.cpu().numpy()


def multipliers(gram: Any, against: Any, gamma: float) -> Any:
    """The v >= gamma that minimises v'(GG' + 1e-3 I)v / 2 + (Gg)'v, given `gram` = GG' and `against` = Gg.

    With R'R = GG' + 1e-3 I and v = gamma + w, this is a least-squares problem over w >= 0.
    """
    from scipy.optimize import nnls

    matrix = gram + _RIDGE * np.eye(len(gram))
    root = np.linalg.cholesky(matrix).T
    target = -np.linalg.solve(root.T, against + gamma * matrix.sum(1))
    return gamma + nnls(root, target, maxiter=100 * len(gram))[0]
