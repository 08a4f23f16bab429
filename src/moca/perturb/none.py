"""Plain replay: features stay where they are."""

from torch import Tensor

from moca.batch import Batch
from moca.perturb.base import Perturbation


class Unmoved(Perturbation):
    """Every feature stays where it is."""

    options = {}  # none of those that say how far to move
    recipes = {}
    moves = False
    official_pass = ""

    def __call__(self, replay: Batch, new: Batch | None = None) -> Tensor:
        """The features of `replay`."""
        return replay.features
