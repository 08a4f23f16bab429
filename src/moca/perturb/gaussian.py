"""Gaussian: isotropic noise, the model-agnostic perturbation."""

from torch import Tensor

from moca.batch import Batch
from moca.perturb.base import Perturbation
from moca.settings import perturb


class Gaussian(Perturbation[perturb.Gaussian]):
    """n ~ N(0, I), by default scaled to unit length (which gave the published numbers)."""

    @property
    def unit(self) -> bool:
        """Unit length unless the paper's literal formula is asked for."""
        return self.settings.unit

    def direction(self, replay: Batch, new: Batch) -> Tensor:
        """Fresh noise for every sample."""
        return self.random.normal(*replay.features.shape)
