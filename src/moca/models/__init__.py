"""Encoders and heads."""

from moca.models.auxiliary import auxiliary_encode
from moca.models.build import build_model
from moca.models.heads import CosineHead, Head, LinearHead, SimplexHead, build_head
from moca.models.model import Model

__all__ = ["CosineHead", "Head", "LinearHead", "Model", "SimplexHead", "auxiliary_encode", "build_head", "build_model"]
