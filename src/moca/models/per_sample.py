"""Per-sample gradients of the whole network in evaluation mode."""

from __future__ import annotations

from collections.abc import Iterator

import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call, grad, vmap

from moca.models.evaluating import evaluating
from moca.models.model import Model

_NUMBERS = 2**27
"""Most gradient entries held at once, half a gigabyte; eight times as many on a GPU."""


def held_at_once(entries: int, x: Tensor) -> int:
    """How many gradients with this many entries may be in memory on the device of x."""
    return max(1, _NUMBERS * (8 if x.is_cuda else 1) // entries)


def per_sample_gradients(model: Model, x: Tensor, y: Tensor) -> Iterator[dict[str, Tensor]]:
    """Gradients of the cross-entropy with respect to every trainable weight, one row per sample, chunk by chunk.

    Computed in float32. Leaves the model, its mode and its statistics unchanged.
    """
    weights = {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}
    count = held_at_once(sum(w.numel() for w in weights.values()), x)

    def loss(weights: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(functional_call(model, weights, (x.unsqueeze(0),)), y.unsqueeze(0))

    for part in zip(x.split(count), y.split(count), strict=True):
        with model.in_float32(), evaluating(model):
            gradients = vmap(grad(loss), (None, 0, 0))(weights, *part)
        yield {name: rows.reshape(len(rows), -1) for name, rows in gradients.items()}
