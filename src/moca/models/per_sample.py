"""The gradient of each sample by itself, of the whole network in evaluation mode."""

from __future__ import annotations

from collections.abc import Iterator

import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call, grad, vmap

from moca.models.evaluating import evaluating
from moca.models.model import Model

_NUMBERS = 2**27
"""Most numbers that are computed at once, half a gigabyte, and on a GPU four; a sample has as many as there are
weights."""


def per_sample_gradients(model: Model, x: Tensor, y: Tensor) -> Iterator[dict[str, Tensor]]:
    """Gradients of the cross-entropy by every weight that is learnt, a row a sample, for some samples after the other.

    In float32. The model, its mode and its statistics stay as they are.
    """
    weights = {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}
    at_once = max(1, _NUMBERS * (8 if x.is_cuda else 1) // sum(w.numel() for w in weights.values()))

    def loss(weights: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(functional_call(model, weights, (x.unsqueeze(0),)), y.unsqueeze(0))

    for part in zip(x.split(at_once), y.split(at_once), strict=True):
        with model.in_float32(), evaluating(model):
            gradients = vmap(grad(loss), (None, 0, 0))(weights, *part)
        yield {name: rows.reshape(len(rows), -1) for name, rows in gradients.items()}
