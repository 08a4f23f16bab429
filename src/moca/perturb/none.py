"""Plain replay: features are not moved."""

from torch import Tensor

from moca.batch import Batch
from moca.perturb.base import Perturbation


class Unmoved(Perturbation):
    """No perturbation."""

    options = {}  # without lambda and the angles
    recipes = {}
    moves = False
    official_pass = ""

    def __call__(self, replay: Batch, new: Batch | None = None) -> Tensor:
        """Return the features of `replay` unchanged."""
        return replay.features
