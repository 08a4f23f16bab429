"""Passes through the encoder that leave no trace: no gradient, no BatchNorm statistics, other weights if wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor, nn

from moca.models.encoders.base import AfterStage
from moca.models.norm import BatchNorm2d, batches_apart

if TYPE_CHECKING:
    from moca.models.model import Model


def auxiliary_encode(
    model: Model, x: Tensor, weights: dict[str, Tensor] | None = None, after_stage: AfterStage | None = None
) -> Tensor:
    """The encoder's features in the model's current mode, its running statistics staying as they are.

    Gradients flow only if `weights` ask for them.
    """
    tensors = weights or {name: p.detach() for name, p in model.encoder.named_parameters()}
    with batches_apart([len(x)], (), x.device):
        return model.encode(x, tensors | _copies(model.encoder), after_stage)


def _copies(encoder: nn.Module) -> dict[str, Tensor]:
    """Copies of the buffers that a pass may change: all but those of our own BatchNorm, which can be told not to."""
    return {
        f"{name}.{key}" if name else key: buffer.clone()
        for name, module in encoder.named_modules()
        if not isinstance(module, BatchNorm2d)
        for key, buffer in module.named_buffers(recurse=False)
    }
