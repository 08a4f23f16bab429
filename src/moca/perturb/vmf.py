"""vMF: a sample of the von Mises-Fisher distribution around the feature."""

from torch import Tensor

from moca import sphere
from moca.batch import Batch
from moca.perturb.base import Perturbation
from moca.settings import perturb


class VMF(Perturbation[perturb.VMF]):
    """n = z ~ vMF(P(h), kappa), or the official code's n = z - P(h)."""

    def direction(self, replay: Batch, new: Batch) -> Tensor:
        """A fresh sample around every feature."""
        u = sphere.project(replay.features)
        kappa = self.settings.kappa
        # The official sampler's envelope is that of kappa >> dimension, which biases it for 11 < kappa < 1000.
        biased = self.settings.sampler == "official" and kappa > 11
        z = sphere.sample_vmf(u, kappa, self.random, b=(u.shape[-1] - 1) / (4 * kappa) if biased else None)
        return z if self.settings.noise == "sample" else z - u
