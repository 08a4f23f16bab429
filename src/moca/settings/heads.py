"""Settings of the classifier heads."""

from typing import Annotated, Literal

from pydantic import Field

from moca.settings.base import Settings, choice


class Cosine(Settings):
    """Hyperspherical classifier: scaled cosines between feature and class vectors."""

    name: Literal["cosine"] = "cosine"
    scale: float = Field(1.0, gt=0, description="sigma, the scale of the logits at the start")
    learnable: bool = Field(True, description="train the scale")


class Linear(Settings):
    """Linear classifier with bias."""

    name: Literal["linear"] = "linear"


class Simplex(Settings):
    """Fixed, equidistant class vectors: a learnt linear map onto a regular simplex."""

    name: Literal["simplex"] = "simplex"


HEADS = (Cosine, Linear, Simplex)
Head = Annotated[Cosine | Linear | Simplex, choice("head", *HEADS)]
