"""A-GEM: averaged gradient episodic memory; no step may raise the loss on a batch of old samples.

Paper: Chaudhry et al., ICLR 2019, arXiv 1812.00420.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from moca.batch import Batch
from moca.learners.base import Learner, Losses
from moca.memory import Past


class AGEM(Learner):
    """The gradient of the new loss, less its part that works against the gradient of the loss on old samples."""

    draw = Past
    recipes = {"offline": {"lr": 0.03}, "tinyimagenet/offline": {"lr": 0.01}}

    def losses(self, new: Batch, *replays: Batch) -> Losses:
        """CE(new), and from the second task on CE over the old ones among the replayed samples."""
        losses = {"new": F.cross_entropy(new.logits, new.y)}
        if replays and not self.first_task:
            losses["reference"] = self.loss_of_old(replays[0], new)
        return losses

    def update(self, losses: Losses, optimiser: torch.optim.Optimizer) -> None:
        """g <- g - (g.r / r.r) r where g.r < 0: the replayed samples only hold the step back, they never pull it."""
        parameters = [p for p in self.model.parameters() if p.requires_grad]
        optimiser.zero_grad()
        if "reference" not in losses:
            losses["new"].backward()
        else:
            away = torch.autograd.grad(losses["reference"], parameters, retain_graph=True, materialize_grads=True)
            losses["new"].backward()
            gradients = [p.grad for p in parameters if p.grad is not None]
            reference = [r for p, r in zip(parameters, away, strict=True) if p.grad is not None]
            against = _dot(gradients, reference).clamp_max(0) / _dot(reference, reference).clamp_min(1e-30)
            torch._foreach_sub_(gradients, torch._foreach_mul(reference, against))
        optimiser.step()


def _dot(a: list[Tensor], b: list[Tensor]) -> Tensor:
    return torch.stack([(x * y).sum() for x, y in zip(a, b, strict=True)]).sum()
