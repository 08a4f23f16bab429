"""Settings of encoders and heads."""

from typing import Annotated, Literal

from pydantic import Field

from moca.settings.base import Settings, choice


class ResNet18(Settings):
    """ResNet-18 with the CIFAR stem (3x3, no max-pool)."""

    name: Literal["resnet18"] = "resnet18"
    width: int = Field(64, ge=1, description="channels of the first stage; 64 offline, 20 online")
    pool: int | None = Field(None, ge=1, description="side of the average pooling window; the whole map if not given")


class ConvNet(Settings):
    """A small convolutional network with BatchNorm."""

    name: Literal["convnet"] = "convnet"
    width: int = Field(32, ge=1, description="channels of the first stage")
    features: int = Field(64, ge=2, description="length of the feature vector")


class MLP(Settings):
    """Fully connected layers on the flattened image."""

    name: Literal["mlp"] = "mlp"
    width: int = Field(128, ge=1, description="units of each hidden layer")
    depth: int = Field(2, ge=0, description="hidden layers")
    features: int = Field(64, ge=2, description="length of the feature vector")


MODELS = (ResNet18, ConvNet, MLP)
Model = Annotated[ResNet18 | ConvNet | MLP, choice("model", *MODELS)]


class Cosine(Settings):
    """Hyperspherical classifier: scaled cosines between feature and class vectors."""

    name: Literal["cosine"] = "cosine"
    scale: float = Field(1.0, gt=0, description="sigma, the scale of the logits at the start")
    learnable: bool = Field(True, description="train the scale")


class Linear(Settings):
    """Linear classifier with bias."""

    name: Literal["linear"] = "linear"


HEADS = (Cosine, Linear)
Head = Annotated[Cosine | Linear, choice("head", *HEADS)]


class Choice(Settings):
    """An encoder written in any of the accepted forms."""

    model: Model
