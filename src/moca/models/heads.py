"""Classifier heads. All except the simplex can grow when new classes appear."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from moca import sphere
from moca.errors import MocaError
from moca.settings import heads as settings


class Head(nn.Module):
    """A classifier with one class vector per class, the rows of `weight`."""

    weight: Tensor

    def extra_repr(self) -> str:
        """Its constructor arguments, for the repr."""
        classes, features = self.weight.shape
        return f"{features}, {classes}"

    def grow(self, classes: int) -> None:
        """Add rows up to `classes`, initialised like the first ones; existing rows keep their values.

        The parameters become new objects, so build the optimiser afterwards.
        """
        for name, parameter in list(self.named_parameters(recurse=False)):
            if parameter.dim() and classes > len(parameter):
                rows = _uniform(classes - len(parameter), *parameter.shape[1:], fan_in=self.weight.shape[1])
                grown = torch.cat([parameter.data, rows.to(parameter)])
                setattr(self, name, nn.Parameter(grown, requires_grad=parameter.requires_grad))


def _uniform(*shape: int, fan_in: int) -> Tensor:
    return torch.empty(shape).uniform_(-1, 1) / math.sqrt(fan_in)


class CosineHead(Head):
    """The hyperspherical classifier: logits are sigma times the cosine between feature and class vector.

    Args:
        features: The length of a feature vector.
        classes: The number of classes now; `grow` adds more.
        scale: The initial sigma.
        learnable: Whether sigma is trained.
    """

    def __init__(self, features: int, classes: int, scale: float = 1.0, learnable: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(_uniform(classes, features, fan_in=features))
        self.scale = nn.Parameter(torch.tensor(scale), requires_grad=learnable)

    def forward(self, h: Tensor) -> Tensor:
        """Logits of the features h."""
        return self.scale * F.linear(sphere.project(h), sphere.project(self.weight))


class LinearHead(Head):
    """The usual linear classifier with bias, which can grow.

    Args:
        features: The length of a feature vector.
        classes: The number of classes now; `grow` adds more.
    """

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(_uniform(classes, features, fan_in=features))
        self.bias = nn.Parameter(_uniform(classes, fan_in=features))

    def forward(self, h: Tensor) -> Tensor:
        """Logits of the features h."""
        return F.linear(h, self.weight, self.bias)


class SimplexHead(Head):
    """The regular polytope classifier: the class vectors are the fixed corners of a regular simplex.

    All pairs of corners have the same angle. A trained linear map with bias takes the features to the simplex's space.
    The logits of a sample sum to zero.
    """

    corners: Tensor

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        if classes < 2:
            raise MocaError("a simplex head needs at least 2 classes; use head=linear or head=cosine")
        self.map = nn.Parameter(_uniform(classes - 1, features, fan_in=features))
        self.bias = nn.Parameter(_uniform(classes - 1, fan_in=features))
        self.register_buffer("corners", simplex(classes), persistent=False)

    @property
    def weight(self) -> Tensor:  # type: ignore[override]
        """The class vectors in feature space."""
        return self.corners @ self.map

    def forward(self, h: Tensor) -> Tensor:
        """Logits of the features h."""
        return F.linear(F.linear(h, self.map, self.bias), self.corners)

    def grow(self, classes: int) -> None:
        """Raise an error if asked for more classes: with another corner, all the fixed ones would have to move."""
        if classes > len(self.corners):
            raise MocaError("a simplex head cannot grow, its class vectors are fixed; use head=linear or head=cosine")


def simplex(corners: int) -> Tensor:
    """The corners of a regular simplex: unit vectors, one per row, with all pairwise cosines -1 / (corners - 1).

    They have corners - 1 dimensions. They are the rows of Helmert's orthonormal basis of the vectors that sum to zero,
    scaled to unit length.
    """
    k = torch.arange(1, corners, dtype=torch.float64)
    row = torch.arange(corners, dtype=torch.float64).unsqueeze(1)
    basis = torch.where(row < k, 1.0, torch.where(row == k, -k, 0.0)) / (k * (k + 1)).sqrt()
    return (basis * math.sqrt(corners / (corners - 1))).float()


def build_head(choice: settings.Cosine | settings.Linear | settings.Simplex, features: int, classes: int) -> Head:
    """The head that the settings describe."""
    if isinstance(choice, settings.Simplex):
        return SimplexHead(features, classes)
    if isinstance(choice, settings.Cosine):
        return CosineHead(features, classes, choice.scale, choice.learnable)
    return LinearHead(features, classes)
