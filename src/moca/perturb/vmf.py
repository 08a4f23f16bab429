"""vMF: a von Mises-Fisher sample around the feature's own direction.

Paper: Yu et al., TMLR 2023, arXiv 2210.05398.
"""

from typing import Literal

from torch import Tensor

from moca import sphere
from moca.batch import Batch
from moca.parts import option
from moca.perturb.base import Perturbation


class VMF(Perturbation):
    """n = z ~ vMF(u, kappa) with u = P(h), or the official code's n = z - u."""

    kappa: float = option(100.0, "concentration; 0 is uniform on the sphere", ge=0, le=1e9)
    noise: Literal["sample", "difference"] = option("sample", "n = z (paper), or n = z - u (official code)")
    sampler: Literal["exact", "official"] = option(
        "exact", "exact, or with the official code's envelope, which is biased for kappa above 10"
    )

    official_pass = ""
    recipes = Perturbation.recipes | {"small": {"lambda": 1.0, "kappa": 10.0}}

    def direction(self, replay: Batch, new: Batch) -> Tensor:
        """One new sample around the direction of every feature."""
        u = sphere.project(replay.features)
        envelope = sphere.official_envelope(self.kappa, u.shape[-1]) if self.sampler == "official" else None
        z = sphere.sample_vmf(u, self.kappa, self.random, b=envelope)
        return z if self.noise == "sample" else z - u
