"""Add new feature: towards a new sample's feature; the paper's test of which direction helps.

Paper: Yu et al., TMLR 2023, arXiv 2210.05398.
"""

from typing import ClassVar

from torch import Tensor

from moca.batch import Batch, paired
from moca.perturb.base import Perturbation


class AddNew(Perturbation):
    """n = h(x_new). The released ER-ACE and DER++ files do this under the name Gaussian."""

    official_pass: ClassVar[str | None] = "n"

    def direction(self, replay: Batch, new: Batch) -> Tensor:
        """The features of new samples, paired by row with the replayed ones."""
        return paired(new.features, len(replay.features))
