"""How a data set is used: what the encoder sees, and how its classes are dealt into tasks."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Protocol:
    """How the images of a data set are prepared for the encoder, and the encoder it is used with by default."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    crop_padding: int = 0
    """Random crops of the original size from the image padded by this many black pixels."""
    flip: bool = False
    """Random horizontal flips."""
    model: str = "resnet18"
    brightness: float = 0.0
    """Pixel values times a random factor from 1 - brightness to 1 + brightness."""
    tasks: tuple[int, ...] = ()
    """Classes of each task; empty where the data set has no customary split."""
    class_order: str = "natural"
    """The order in which classes arrive: natural, or one of the data set's named orders."""
