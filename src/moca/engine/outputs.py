"""Named outputs of a step: tensors that are requested before it is captured. Unrequested ones cost nothing."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from moca.batch import Batch
from moca.errors import MocaError, nearest

_FIELDS = ("x", "y", "features", "logits", "moved", "old")
_GRADIENT = ".gradient"
KNOWN = (
    *(f"new.{field}" for field in ("x", "y", "features", "logits")),
    *(f"replay.{field}" for field in _FIELDS),
    *(f"{batch}.features{_GRADIENT}" for batch in ("new", "replay")),
    f"replay.moved{_GRADIENT}",
)
"""Fields of the new batch and of the batch replayed with labels; gradients are those of the whole loss."""


class Outputs:
    """Collects the requested tensors from the batches of a step; those of a missing batch are skipped."""

    due = True
    """Whether they are requested for the next step."""

    def __init__(self, wanted: Sequence[str]) -> None:
        for name in wanted:
            if name not in KNOWN:
                raise MocaError(f"a step has no output '{name}'; {nearest(name, KNOWN)}")
        self.wanted = tuple(dict.fromkeys(wanted))

    def watch(self, new: Batch, replays: Sequence[Batch]) -> None:
        """Call before the backward pass: retain the requested gradients."""
        for name in self.wanted if self.due else ():
            if name.endswith(_GRADIENT) and (tensor := _find(name, new, replays)) is not None and tensor.requires_grad:
                tensor.retain_grad()

    def collect(self, new: Batch, replays: Sequence[Batch]) -> dict[str, Tensor]:
        """Call after the update: the requested tensors by name."""
        found = {}
        for name in self.wanted if self.due else ():
            tensor = _find(name, new, replays)
            if tensor is not None and name.endswith(_GRADIENT):
                tensor = tensor.grad
            if tensor is not None:
                found[name] = tensor.detach()
        return found


def _find(name: str, new: Batch, replays: Sequence[Batch]) -> Tensor | None:
    batch, field = name.removesuffix(_GRADIENT).split(".")
    source = new if batch == "new" else replays[-1] if replays else None
    return source.__dict__.get(field) if source is not None else None
