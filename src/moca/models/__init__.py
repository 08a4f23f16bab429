"""Encoders and heads."""

from moca.models.auxiliary import auxiliary_encode
from moca.models.heads import CosineHead, Head, LinearHead, build_head
from moca.models.model import Model, build_model
from moca.models.resnet import ResNet18
from moca.models.small import MLP, ConvNet

__all__ = [
    "MLP",
    "ConvNet",
    "CosineHead",
    "Head",
    "LinearHead",
    "Model",
    "ResNet18",
    "auxiliary_encode",
    "build_head",
    "build_model",
]
