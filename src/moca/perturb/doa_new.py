"""DOA-new: dropout-based augmentation from a new sample's feature.

Paper: Yu et al., TMLR 2023, arXiv 2210.05398.
"""

from torch import Tensor

from moca.batch import Batch, paired
from moca.perturb.base import Perturbation
from moca.perturb.doa_old import DOAOld


class DOANew(DOAOld):
    """n = Dropout(h(x_new)): towards a new sample's feature, a random part of it missing."""

    needs_images = ""
    official_pass = "n"
    recipes = Perturbation.recipes

    def direction(self, replay: Batch, new: Batch) -> Tensor:
        """Dropout on the new samples, paired by row."""
        return paired(self.dropped(new), len(replay.features))
