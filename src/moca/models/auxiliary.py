"""Passes through the encoder that leave no trace: no gradient, no BatchNorm statistics, other weights if wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.func import functional_call

if TYPE_CHECKING:
    from moca.models.model import Model


def auxiliary_encode(model: Model, x: Tensor, weights: dict[str, Tensor] | None = None, **options: Any) -> Tensor:
    """The encoder's features in the model's current mode, its buffers (running statistics) being copies.

    Gradients flow only if `weights` ask for them.
    """
    encoder = model.encoder
    parameters = weights or {name: p.detach() for name, p in encoder.named_parameters()}
    buffers = {name: b.clone() for name, b in encoder.named_buffers()}
    with model.casting(x.device):
        features: Tensor = functional_call(encoder, parameters | buffers, (x,), options)
    return features.float()
