"""Minus new feature: away from a new sample's feature, the other side of the paper's test.

Paper: Yu et al., TMLR 2023, arXiv 2210.05398.
"""

from torch import Tensor

from moca.batch import Batch
from moca.perturb.add_new import AddNew


class MinusNew(AddNew):
    """n = -h(x_new)."""

    official_pass = None

    def direction(self, replay: Batch, new: Batch) -> Tensor:
        """The opposite of a new sample's feature for each replayed one."""
        return -super().direction(replay, new)
