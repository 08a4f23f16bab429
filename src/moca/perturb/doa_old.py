"""DOA-old: dropout-based augmentation from the replayed sample's own feature.

Paper: Yu et al., TMLR 2023, arXiv 2210.05398.
"""

from typing import Literal

from torch import Tensor

from moca.batch import Batch
from moca.models.auxiliary import auxiliary_encode
from moca.parts import option
from moca.perturb.base import Perturbation


class DOAOld(Perturbation):
    """n = Dropout(h(x_old)): towards the replayed sample's own feature under dropout."""

    rate: float = option(0.5, "dropout rate", ge=0, lt=1)
    site: Literal["feature", "stages"] = option("feature", "dropout on the final feature, or after every stage")

    needs_images = "it drops out parts of the old samples' own features"
    official_pass = "b"
    recipes = Perturbation.recipes | {"small": {"lambda": 0.5}}

    @property
    def needs(self) -> tuple[str, ...]:
        """The model, for dropout inside the encoder."""
        return ("model",) if self.site == "stages" else ()

    def direction(self, replay: Batch, new: Batch) -> Tensor:
        """Features of the replayed samples under dropout."""
        return self.dropped(replay)

    def dropped(self, batch: Batch) -> Tensor:
        """The batch's features under dropout, on the final feature or after every stage of the encoder."""
        if self.site == "feature":
            return self.dropout(batch.features)
        return auxiliary_encode(self.model, batch.x, after_stage=self.dropout)

    def dropout(self, h: Tensor) -> Tensor:
        """Zero each entry with probability `rate` and scale the others to keep the mean, which matters in stages."""
        return h * (self.random.uniform(*h.shape) >= self.rate) / (1 - self.rate)
