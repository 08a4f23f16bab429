"""No layers at all: the input is the feature vector, for data that are already features."""

import math

from torch import Tensor

from moca.models.encoders.base import AfterStage, Encoder, unchanged


class Identity(Encoder):
    """The flattened input; only the head is trained."""

    small = True

    def __init__(self, shape: tuple[int, int, int]) -> None:
        super().__init__(math.prod(shape))

    def forward(self, x: Tensor, after_stage: AfterStage = unchanged) -> Tensor:
        """x, flattened."""
        return x.flatten(1)
