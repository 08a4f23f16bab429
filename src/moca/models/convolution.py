"""Convolutions with as many channels as the GPU likes, whatever their number."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from moca import kernels

_GROUP, _PADDED = 8, torch.bfloat16
"""Channels that tensor cores take at a time, of numbers of this type."""


class Convolution(nn.Conv2d):
    """A convolution without bias, of channels that need not come in eights.

    Where they do not, cuDNN pads every bfloat16 tensor before each use and cuts the result afterwards. In training such
    a layer gives a few channels more instead, once for all: zeros, which `BatchNorm2d` keeps zero, and which the next
    layer takes with weights of zero. No gradient comes to any of them.
    """

    def __init__(self, inputs: int, outputs: int, side: int, stride: int = 1) -> None:
        super().__init__(inputs, outputs, side, stride, padding=side // 2, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """The channels of the layer, then zeros."""
        y: Tensor = self._conv_forward(x, self.fitted(x), None)
        return y

    def fitted(self, x: Tensor) -> Tensor:
        """The weights for x, with zeros for channels that it has beyond the layer's, and for those to be added."""
        outputs, inputs = self.weight.shape[:2]
        adds = self.training and self.weight.dtype == _PADDED and kernels.usable(self.weight)
        more_inputs, more_outputs = x.shape[1] - inputs, -outputs % _GROUP if adds else 0
        if not (more_inputs or more_outputs):
            return self.weight
        return F.pad(self.weight, (0, 0, 0, 0, 0, more_inputs, 0, more_outputs))
