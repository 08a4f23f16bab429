"""A batch of samples as it travels from the stream or the memory to the losses."""

from typing import Self

import torch
from torch import Tensor


class Batch:
    """Samples of a step, one row each. Give what the learner or perturbation at hand uses; it asks if it needs more."""

    image: Tensor
    """Raw images, as bytes."""
    x: Tensor
    """Images as the encoder sees them."""
    y: Tensor
    """Class labels."""
    features: Tensor
    """h(x), the encoder's output."""
    moved: Tensor
    """The features as the classifier saw them: those of old classes moved by the perturbation."""
    logits: Tensor
    """The classifier's output: of this step for new samples, of the time of storing for replayed ones."""
    slot: Tensor
    """Where a replayed sample stands in the memory."""
    old: Tensor | None = None
    """True where the sample's class belongs to an earlier task; None means everywhere."""

    def __init__(self, **fields: Tensor) -> None:
        if unknown := fields.keys() - Batch.__annotations__.keys():
            raise ValueError(f"a batch has no field '{unknown.pop()}'; it has {', '.join(Batch.__annotations__)}")
        self.__dict__.update(fields)

    def __getattr__(self, name: str) -> Tensor:
        raise AttributeError(f"this needs a batch with '{name}': Batch({name}=...)")

    def replace(self, **fields: Tensor) -> Self:
        """The same batch with some fields set."""
        return type(self)(**(self.__dict__ | fields))


def paired(rows: Tensor, count: int) -> Tensor:
    """`count` rows, one for each replayed sample: the given ones, again from the start where they are too few."""
    if not len(rows):
        raise ValueError("the new batch has no samples to go by; leave the perturbation out of such a step")
    return rows if len(rows) == count else rows[torch.arange(count, device=rows.device) % len(rows)]
