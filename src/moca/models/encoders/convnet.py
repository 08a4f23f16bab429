"""A small convolutional network with BatchNorm, for small images."""

import math
from typing import Annotated

import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from moca.models.batch_norm.layer import BatchNorm2d
from moca.models.encoders.base import AfterStage, Encoder, unchanged


class ConvNet(Encoder):
    """Two stages of convolution, BatchNorm, ReLU and max pooling, each halving the side, then a linear layer."""

    small = True

    def __init__(
        self,
        shape: tuple[int, int, int],
        width: Annotated[int, Field(ge=1, description="channels of the first stage")] = 32,
        features: Annotated[int, Field(ge=2, description="length of the feature vector")] = 64,
    ) -> None:
        super().__init__(features)
        channels, height, breadth = shape
        self.stages = nn.ModuleList(
            nn.Sequential(nn.Conv2d(a, b, 3, padding=1, bias=False), BatchNorm2d(b), nn.ReLU())
            for a, b in ((channels, width), (width, 2 * width))
        )
        self.output = nn.Linear(2 * width * math.ceil(height / 4) * math.ceil(breadth / 4), features)

    def forward(self, x: Tensor, after_stage: AfterStage = unchanged) -> Tensor:
        """Features of the images x."""
        for stage in self.stages:
            x = after_stage(F.max_pool2d(stage(x), 2, ceil_mode=True))
        features: Tensor = self.output(x.flatten(1))
        return features
