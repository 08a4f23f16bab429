"""A batch of samples as it travels from the stream or the memory to the losses."""

from typing import Self, TypedDict, Unpack

import torch
from torch import Tensor


class Fields(TypedDict, total=False):
    """What a batch can be made of."""

    image: Tensor
    x: Tensor
    y: Tensor
    features: Tensor
    moved: Tensor
    logits: Tensor
    slot: Tensor
    old: Tensor | None


class Batch:
    """Samples of a step, one row of every field each.

    Give the fields that the learner or perturbation at hand uses; it asks if it needs more.

    Example:
        >>> moca.Batch(features=torch.zeros(4, 32), old=torch.tensor([True, True, False, False]))
        Batch(features=float32 of (4, 32), old=bool of (4,))
    """

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

    def __init__(self, **fields: Unpack[Fields]) -> None:
        if unknown := fields.keys() - Batch.__annotations__.keys():
            raise ValueError(f"a batch has no field '{unknown.pop()}'; it has {', '.join(Batch.__annotations__)}")
        self.__dict__.update(fields)

    def __repr__(self) -> str:
        return f"Batch({', '.join(f'{name}={in_short(value)}' for name, value in vars(self).items())})"

    def __getattr__(self, name: str) -> Tensor:
        raise AttributeError(f"this needs a batch with '{name}': Batch({name}=...)")

    def replace(self, **fields: Unpack[Fields]) -> Self:
        """The same batch with some fields set."""
        return type(self)(**{**self.__dict__, **fields})


def in_short(tensor: object) -> str:
    """Type and shape of a tensor, as what holds many is printed."""
    if not isinstance(tensor, Tensor):
        return repr(tensor)
    return f"{str(tensor.dtype).removeprefix('torch.')} of {tuple(tensor.shape)}"


def paired(rows: Tensor, count: int) -> Tensor:
    """`count` rows, one for each replayed sample: the given ones, again from the start where they are too few."""
    if not len(rows):
        raise ValueError("the new batch has no samples to go by; leave the perturbation out of such a step")
    return rows if len(rows) == count else rows[torch.arange(count, device=rows.device) % len(rows)]
