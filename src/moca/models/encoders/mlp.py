"""Fully connected layers on the flattened image."""

import math
from itertools import pairwise
from typing import Annotated

import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from moca.models.encoders.base import AfterStage, Encoder, unchanged


class MLP(Encoder):
    """Hidden layers with ReLU, then a linear layer to the features; with two features, these can be plotted."""

    small = True

    def __init__(
        self,
        shape: tuple[int, int, int],
        width: Annotated[int, Field(ge=1, description="units of each hidden layer")] = 128,
        depth: Annotated[int, Field(ge=0, description="hidden layers")] = 2,
        features: Annotated[int, Field(ge=2, description="length of the feature vector")] = 64,
    ) -> None:
        super().__init__(features)
        sizes = [math.prod(shape)] + [width] * depth
        self.stages = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self.output = nn.Linear(sizes[-1], features)

    def forward(self, x: Tensor, after_stage: AfterStage = unchanged) -> Tensor:
        """Features of the images x."""
        x = x.flatten(1)
        for stage in self.stages:
            x = after_stage(F.relu(stage(x)))
        features: Tensor = self.output(x)
        return features
