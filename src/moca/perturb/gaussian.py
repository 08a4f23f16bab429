"""Gaussian: isotropic noise, the model-agnostic perturbation.

Paper: Yu et al., TMLR 2023, arXiv 2210.05398.
"""

from torch import Tensor

from moca.batch import Batch
from moca.parts import option
from moca.perturb.base import Perturbation


class Gaussian(Perturbation):
    """n ~ N(0, I), by default scaled to unit length, which gave the published numbers."""

    unit: bool = option(True, "scale the noise to unit length; off is the paper's literal formula")

    official_pass = "n"

    @property
    def scaled(self) -> bool:
        """True unless the paper's literal formula is chosen."""
        return self.unit

    def direction(self, replay: Batch, new: Batch) -> Tensor:
        """New noise for every sample."""
        return self.random.normal(*replay.features.shape)
