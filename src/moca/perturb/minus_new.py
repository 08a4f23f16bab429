"""Minus new feature: away from a new sample's feature; the opposite direction in the paper's test.

Paper: Yu et al., TMLR 2023, arXiv 2210.05398.
"""

from torch import Tensor

from moca.batch import Batch
from moca.perturb.add_new import AddNew


class MinusNew(AddNew):
    """n = -h(x_new)."""

    official_pass = None

    def direction(self, replay: Batch, new: Batch) -> Tensor:
        """The negative features of new samples, paired by row with the replayed ones."""
        return -super().direction(replay, new)
