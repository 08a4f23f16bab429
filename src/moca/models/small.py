"""Small encoders for small images."""

import math
from itertools import pairwise

import torch.nn.functional as F
from torch import Tensor, nn

from moca.models.encoder import AfterStage, Encoder, unchanged
from moca.models.norm import BatchNorm2d


class ConvNet(Encoder):
    """Two stages of convolution, BatchNorm and ReLU, each halving the side, and a linear layer to the features."""

    def __init__(self, shape: tuple[int, int, int], width: int = 32, features: int = 64) -> None:
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


class MLP(Encoder):
    """Hidden layers with ReLU and a linear layer to the features, which may be two, to be drawn."""

    def __init__(self, shape: tuple[int, int, int], width: int = 128, depth: int = 2, features: int = 64) -> None:
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
