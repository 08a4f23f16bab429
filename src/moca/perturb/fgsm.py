"""FGSM on features: an adversarial direction that ignores the network, which the paper shows to hurt.

Paper: Goodfellow et al., ICLR 2015, arXiv 1412.6572; on features: Yu et al., TMLR 2023, arXiv 2210.05398.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from moca.batch import Batch
from moca.perturb.base import Perturbation


class FGSM(Perturbation):
    """n = sign of the gradient of CE(g(h), y_old) with respect to h."""

    @property
    def needs(self) -> tuple[str, ...]:
        """The classifier."""
        return ("model",)

    def direction(self, replay: Batch, new: Batch) -> Tensor:
        """The fast gradient sign at each replayed feature."""
        precise = self.model.head.weight.dtype
        with torch.enable_grad():
            h = replay.features.detach().to(precise).requires_grad_()
            label = self.model.outputs * replay.y  # of several outputs a class, the first is the class itself
            loss = F.cross_entropy(self.model.classify(h), label, reduction="sum")
            (gradient,) = torch.autograd.grad(loss, h)
        return gradient.sign()
