"""DOA-new: dropout-based augmentation from a new sample's feature.

Paper: Yu et al., TMLR 2023, arXiv 2210.05398.
"""

from torch import Tensor

from moca.batch import Batch, paired
from moca.perturb.base import Perturbation
from moca.perturb.doa_old import DOAOld


class DOANew(DOAOld):
    """n = Dropout(h(x_new)): towards a new sample's feature under dropout."""

    needs_images = ""
    official_pass = "n"
    recipes = Perturbation.recipes

    def direction(self, replay: Batch, new: Batch) -> Tensor:
        """Features of the new samples under dropout, paired by row with the replayed ones."""
        return paired(self.dropped(new), len(replay.features))
