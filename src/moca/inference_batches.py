"""How many images pass a network together where nothing is learnt from them."""

from torch import Tensor

MOST = {"cpu": 500, "cuda": 2000}
"""By the kind of device: as many as keep a GPU busy, and so few on a CPU that a stop is not waited for."""
_PIXELS = 2000 * 32 * 32
"""Of all of them: what passes between the layers of a ResNet-18 is then about 1.5 GB in bfloat16."""


def at_once(images: Tensor, most: int) -> int:
    """As many as are wanted, fewer of large images; vectors are of one pixel."""
    height, width = images.shape[-2:]
    return max(1, min(most, _PIXELS // (height * width)))
