"""FGSM on features: an adversarial direction that ignores the encoder, which the paper shows to hurt.

Paper: Goodfellow et al., ICLR 2015, arXiv 1412.6572; on features: Yu et al., TMLR 2023, arXiv 2210.05398.
"""

from torch import Tensor

from moca.batch import Batch
from moca.perturb.base import Perturbation, uphill


class FGSM(Perturbation):
    """n = sign(grad_h CE(g(h), y_old))."""

    needs = ("model",)

    def direction(self, replay: Batch, new: Batch) -> Tensor:
        """The sign of the gradient at each replayed feature."""
        return uphill(self.model, replay).sign()
