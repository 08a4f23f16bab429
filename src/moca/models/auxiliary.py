"""Forward passes without side effects: no gradients, no updates of BatchNorm statistics, optionally other weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor, nn
from torch.func import functional_call

from moca.models.batch_norm.batches import batches_apart, rows_weighted
from moca.models.batch_norm.foreign import obeys
from moca.models.encoders.base import AfterStage

if TYPE_CHECKING:
    from moca.models.model import Model

_STATISTICS = ("running_mean", "running_var", "num_batches_tracked")


def auxiliary_encode(
    model: Model,
    x: Tensor,
    weights: dict[str, Tensor] | None = None,
    after_stage: AfterStage | None = None,
    rows: Tensor | None = None,
) -> Tensor:
    """The encoder's features in the model's current mode, without updating its running statistics.

    Gradients flow only to `weights`, if these require them. `rows` are the weights of the rows in BatchNorm's
    statistics, with sum 1; rows of weight 0 influence nothing, and their features are meaningless.
    """
    tensors = weights or {name: p.detach() for name, p in model.encoder.named_parameters()}
    with batches_apart([len(x)], ()) if rows is None else rows_weighted(rows):
        return model.encode(x, tensors | _copies(model.encoder), after_stage)


def auxiliary_logits(
    model: Model, x: Tensor, weights: dict[str, Tensor] | None = None, rows: Tensor | None = None
) -> Tensor:
    """Like `auxiliary_encode`, the logits of the whole network; `weights` are keyed by their names in the model."""
    tensors = weights or {name: p.detach() for name, p in model.named_parameters()}
    encoder, head = (
        {name.removeprefix(part): w for name, w in tensors.items() if name.startswith(part)}
        for part in ("encoder.", "head.")
    )
    logits: Tensor = functional_call(model.head, head, (auxiliary_encode(model, x, encoder, rows=rows),))
    return logits


def _copies(encoder: nn.Module) -> dict[str, Tensor]:
    """Copies of the buffers that a pass may change: all except the statistics of BatchNorm layers that obey
    `batches_apart`."""
    return {
        f"{name}.{key}" if name else key: buffer.clone()
        for name, module in encoder.named_modules()
        for key, buffer in module.named_buffers(recurse=False)
        if not (key in _STATISTICS and obeys(module))
    }
