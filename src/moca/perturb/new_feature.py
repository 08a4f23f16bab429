"""Add and minus new feature: the paper's test of which direction helps."""

from torch import Tensor

from moca.batch import Batch
from moca.perturb.base import Perturbation
from moca.perturb.rows import paired
from moca.settings import perturb


class AddNew(Perturbation[perturb.AddNew]):
    """n = h(x_new). The released ER-ACE and DER++ files do this under the name Gaussian."""

    sign = 1

    def direction(self, replay: Batch, new: Batch) -> Tensor:
        """A new sample's feature for each replayed one, paired by row."""
        new_features = new.features
        return self.sign * paired(new_features, len(replay.features))


class MinusNew(AddNew):
    """n = -h(x_new)."""

    sign = -1
