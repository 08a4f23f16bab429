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
    """The gradient of the new loss, projected if it conflicts with the gradient of the loss on old samples."""

    draw = Past
    recipes = {"offline": {"lr": 0.03}, "tinyimagenet/offline": {"lr": 0.01}}

    def losses(self, new: Batch, *replays: Batch) -> Losses:
        """CE(new), and from the second task on the reference CE over replayed samples of old classes."""
        losses = {"new": F.cross_entropy(new.logits, new.y)}
        if replays and not self.first_task:
            losses["reference"] = self.loss_of_old(replays[0], new)
        return losses

    def update(self, losses: Losses, optimiser: torch.optim.Optimizer) -> None:
        """g <- g - (g.r / r.r) r if g.r < 0: replayed samples constrain the step, but are not trained on."""
        parameters = [p for p in self.model.parameters() if p.requires_grad]
        optimiser.zero_grad()
        if "reference" not in losses:
            losses["new"].backward()
        else:
            of_all = torch.autograd.grad(losses["reference"], parameters, retain_graph=True, materialize_grads=True)
            losses["new"].backward()
            gradient = [p.grad for p in parameters if p.grad is not None]
            reference = [r for p, r in zip(parameters, of_all, strict=True) if p.grad is not None]
            factor = _dot(gradient, reference).clamp_max(0) / _dot(reference, reference).clamp_min(1e-30)
            torch._foreach_sub_(gradient, torch._foreach_mul(reference, factor))
        optimiser.step()


def _dot(a: list[Tensor], b: list[Tensor]) -> Tensor:
    return torch.stack([(x * y).sum() for x, y in zip(a, b, strict=True)]).sum()
