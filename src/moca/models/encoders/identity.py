"""No layers at all: features are what comes, for vectors that are features already."""

import math

from torch import Tensor

from moca.models.encoders.base import AfterStage, Encoder, unchanged


class Identity(Encoder):
    """The flattened input itself; what learns is the head alone."""

    small = True

    def __init__(self, shape: tuple[int, int, int]) -> None:
        super().__init__(math.prod(shape))

    def forward(self, x: Tensor, after_stage: AfterStage = unchanged) -> Tensor:
        """The numbers of x as they are."""
        return x.flatten(1)
