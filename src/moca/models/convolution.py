"""Convolutions padded to the channel counts that tensor cores need."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from moca import kernels

_GROUP, _PADDED = 8, torch.bfloat16
"""Tensor cores take channels in groups of this size, for this dtype."""


class Convolution(nn.Conv2d):
    """A convolution without bias that stays fast if its channels are not a multiple of eight.

    In that case cuDNN pads every bfloat16 tensor before each use and cuts the result afterwards. In training, such a
    layer instead outputs a few extra channels of zeros, which `BatchNorm2d` keeps zero and the next layer multiplies by
    zero weights. No gradient flows to any of them.
    """

    def __init__(self, inputs: int, outputs: int, side: int, stride: int = 1) -> None:
        super().__init__(inputs, outputs, side, stride, padding=side // 2, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """The layer's own channels, followed by the padding of zeros."""
        y: Tensor = self._conv_forward(x, self.fitted(x), None)
        return y

    def fitted(self, x: Tensor) -> Tensor:
        """The weights, padded with zeros for the extra input channels of x and for the extra output channels."""
        outputs, inputs = self.weight.shape[:2]
        adds = self.training and self.weight.dtype == _PADDED and kernels.usable(self.weight)
        more_inputs, more_outputs = x.shape[1] - inputs, -outputs % _GROUP if adds else 0
        if not (more_inputs or more_outputs):
            return self.weight
        return F.pad(self.weight, (0, 0, 0, 0, 0, more_inputs, 0, more_outputs))
