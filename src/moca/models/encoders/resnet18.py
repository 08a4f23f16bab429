"""ResNet-18 with the stem for small images: a 3x3 convolution of stride 1 and no max pooling."""

from typing import Annotated

import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from moca.errors import MocaError
from moca.models.batch_norm.layer import BatchNorm2d
from moca.models.convolution import Convolution
from moca.models.encoders.base import AfterStage, Encoder, unchanged


class Shortcut(Convolution):
    """A strided 1x1 convolution. On a CPU it is computed with stride 1 on the subsampled pixels, because the backward
    pass of oneDNN's strided one reads out of bounds with few channels on AVX-512 (seen with torch 2.13)."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__(inputs, outputs, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        """The convolution; both branches compute the same."""
        if x.device.type != "cpu":
            return super().forward(x)
        rows, columns = self.stride
        return F.conv2d(x[:, :, ::rows, ::columns], self.fitted(x))


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut, which is a 1x1 convolution where the shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = Convolution(inputs, outputs, 3, stride)
        self.bn1 = BatchNorm2d(outputs)
        self.conv2 = Convolution(outputs, outputs, 3)
        self.bn2 = BatchNorm2d(outputs)
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(Shortcut(inputs, outputs, stride), BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        """The block's output."""
        out = self.bn1(self.conv1(x), relu=True)
        return self.bn2(self.conv2(out), residual=self.shortcut(x), relu=True)  # type: ignore[no-any-return]


class ResNet18(Encoder):
    """Four stages of two basic blocks; non-negative features after average pooling."""

    def __init__(
        self,
        shape: tuple[int, int, int],
        width: Annotated[int, Field(ge=1, description="channels of the first stage; 64 offline, 20 online")] = 64,
        pool: Annotated[
            int | None, Field(ge=1, description="side of the average pooling window; the whole map if not given")
        ] = None,
    ) -> None:
        channels, height, breadth = shape
        side = (-(-height // 8), -(-breadth // 8))
        cells = 1 if pool is None else (side[0] // pool) * (side[1] // pool)
        if not cells:
            raise MocaError(
                f"pool={pool} is larger than the last feature map ({side[0]}x{side[1]}); use at most {min(side)}"
            )
        super().__init__(features=8 * width * cells)
        self.pool, self.small = pool, width <= 20
        self.stem = nn.Sequential(Convolution(channels, width, 3), BatchNorm2d(width))
        widths = [width, width, 2 * width, 4 * width, 8 * width]
        self.stages = nn.ModuleList(
            nn.Sequential(BasicBlock(widths[i], widths[i + 1], stride), BasicBlock(widths[i + 1], widths[i + 1], 1))
            for i, stride in enumerate((1, 2, 2, 2))
        )

    def extra_repr(self) -> str:
        """The settings that the repr of the layers does not show."""
        return f"pool={self.pool}"

    def forward(self, x: Tensor, after_stage: AfterStage = unchanged) -> Tensor:
        """Features of the images x."""
        convolution, norm = self.stem
        x = norm(convolution(x), relu=True)
        for stage in self.stages:
            x = after_stage(stage(x))
        x = F.adaptive_avg_pool2d(x, 1) if self.pool is None else F.avg_pool2d(x, self.pool)
        return x.flatten(1)
