"""Classifiers on top of an encoder. Both can grow when new classes turn up."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from moca import sphere
from moca.settings import heads as settings


class Head(nn.Module):
    """Class vectors, one row of `weight` a class."""

    weight: nn.Parameter

    def grow(self, classes: int) -> None:
        """Add rows up to `classes`, initialised like the first ones; the old rows keep their values.

        The parameters are new objects: make the optimiser afterwards.
        """
        for name, parameter in list(self.named_parameters(recurse=False)):
            if parameter.dim() and classes > len(parameter):
                rows = _uniform(classes - len(parameter), *parameter.shape[1:], fan_in=self.weight.shape[1])
                grown = torch.cat([parameter.data, rows.to(parameter)])
                setattr(self, name, nn.Parameter(grown, requires_grad=parameter.requires_grad))


def _uniform(*shape: int, fan_in: int) -> Tensor:
    return torch.empty(shape).uniform_(-1, 1) / math.sqrt(fan_in)


class CosineHead(Head):
    """The hyperspherical classifier: logits are sigma times the cosine between feature and class vector."""

    def __init__(self, features: int, classes: int, scale: float = 1.0, learnable: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(_uniform(classes, features, fan_in=features))
        self.scale = nn.Parameter(torch.tensor(scale), requires_grad=learnable)

    def forward(self, h: Tensor) -> Tensor:
        """Logits of the features h."""
        return self.scale * F.linear(sphere.project(h), sphere.project(self.weight))


class LinearHead(Head):
    """The usual linear classifier with bias."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(_uniform(classes, features, fan_in=features))
        self.bias = nn.Parameter(_uniform(classes, fan_in=features))

    def forward(self, h: Tensor) -> Tensor:
        """Logits of the features h."""
        return F.linear(h, self.weight, self.bias)


def build_head(choice: settings.Cosine | settings.Linear, features: int, classes: int) -> Head:
    """The head that the settings ask for."""
    if isinstance(choice, settings.Cosine):
        return CosineHead(features, classes, choice.scale, choice.learnable)
    return LinearHead(features, classes)
