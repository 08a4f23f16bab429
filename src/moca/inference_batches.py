"""Batch sizes for inference."""

from torch import Tensor

MOST = {"cpu": 500, "cuda": 2000}
"""Largest batch by device type: enough to keep a GPU busy, few enough on a CPU that stopping does not take long."""
_PIXELS = 2000 * 32 * 32
"""Most pixels in a batch: the activations between the layers of a ResNet-18 then take about 1.5 GB in bfloat16."""


def at_once(images: Tensor, most: int) -> int:
    """The batch size for these images: `most`, or fewer if they are large. A vector counts as one pixel."""
    height, width = images.shape[-2:]
    return max(1, min(most, _PIXELS // (height * width)))
