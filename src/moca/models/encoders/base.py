"""The base class of encoders: images in, feature vectors out."""

from collections.abc import Callable

from torch import Tensor, nn

AfterStage = Callable[[Tensor], Tensor]
"""A function applied to the output of every stage, such as dropout."""


def unchanged(x: Tensor) -> Tensor:
    """Return the output of a stage unchanged."""
    return x


class Encoder(nn.Module):
    """h: images (n, channels, height, width) to features (n, d)."""

    small: bool = False
    """Whether its operations are so short that more than one thread slows them down, on a busy machine many times."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.features = features
