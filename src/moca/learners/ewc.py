"""EWC: elastic weight consolidation, online; weights that are important for earlier tasks stay near their old values.

Paper: Kirkpatrick et al., PNAS 2017, arXiv 1612.00796; online form: Schwarz et al., ICML 2018, arXiv 1805.06370.
"""

import torch
import torch.nn.functional as F

from moca.batch import Batch
from moca.learners.base import Learner, Losses
from moca.models.per_sample import per_sample_gradients
from moca.parts import option
from moca.state import longer


class EWC(Learner):
    """CE on new data plus a quadratic penalty that pulls each weight, by its Fisher information, to its value after the
    last task."""

    lam: float = option(10.0, "strength of the penalty", ge=0, alias="lambda")
    gamma: float = option(1.0, "decay of the Fisher information at the end of a task", ge=0, le=1)

    draws = 0
    store = None
    remembers = ("anchors", "fisher")
    refuses = "it replays nothing that could be moved"
    recipes = {"offline": {"lr": 0.03}}

    def prepare(self) -> None:
        """Create the anchors w*, and the Fisher information F, which is 0 at first."""
        self.anchors = {name: p.detach().clone() for name, p in self.model.named_parameters() if p.requires_grad}
        self.fisher = {name: torch.zeros_like(w) for name, w in self.anchors.items()}

    def losses(self, new: Batch, *replays: Batch) -> Losses:
        """CE(new) + lambda / 2 sum F (w - w*)^2."""
        losses = {"new": F.cross_entropy(new.logits, new.y)}
        if not self.first_task:
            weights = dict(self.model.named_parameters())
            pulls = [(f * (weights[name] - self.anchors[name]).square()).sum() for name, f in self.fisher.items()]
            losses["pull"] = self.lam / 2 * torch.stack(pulls).sum()
        return losses

    @torch.no_grad()
    def end_task(self, samples: Batch) -> None:
        """F <- gamma F + the mean squared gradient of CE(x, y) over the task's samples; w* <- w."""
        weights = dict(self.model.named_parameters())
        for name, fisher in self.fisher.items():
            fisher.mul_(self.gamma)
            self.anchors[name].copy_(weights[name])
        for images, y in self.portions(samples):
            for rows in per_sample_gradients(self.model, self.view(images), y):
                for name, fisher in self.fisher.items():
                    fisher.add_((rows[name].square().sum(0) / len(samples.y)).view_as(fisher))

    def grow(self, classes: int) -> None:
        """Extend F and w* to the new weights, whose F is 0."""
        super().grow(classes)
        for name, p in self.model.named_parameters():
            if name in self.fisher and p.shape != self.fisher[name].shape:
                self.fisher[name] = longer(self.fisher[name], len(p))
                self.anchors[name] = longer(self.anchors[name], len(p))
