"""What every encoder is: images in, feature vectors out."""

from collections.abc import Callable

from torch import Tensor, nn

AfterStage = Callable[[Tensor], Tensor]
"""What is done to the output of every stage, such as dropout."""


def unchanged(x: Tensor) -> Tensor:
    """Leave the output of a stage as it is."""
    return x


class Encoder(nn.Module):
    """h: images (n, channels, height, width) to features (n, d)."""

    small: bool = False
    """Whether its operations are so short that more than one thread slows them down, many times on a busy machine."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.features = features
