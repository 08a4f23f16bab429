"""A batch of samples as it travels from the stream or the memory to the losses."""

from typing import Self, TypedDict, Unpack

import torch
from torch import Tensor


class Fields(TypedDict, total=False):
    """The fields that a batch can have."""

    image: Tensor
    x: Tensor
    y: Tensor
    features: Tensor
    moved: Tensor
    logits: Tensor
    slot: Tensor
    old: Tensor | None


class Batch:
    """The samples of a step: each field is a tensor with one row per sample.

    Pass the fields that your learner or perturbation uses; a missing one raises an error that names it.

    Args:
        image: Raw images, as bytes.
        x: Images as the encoder sees them.
        y: Class labels.
        features: h(x), the encoder's output.
        moved: The features after the perturbation, as the classifier saw them; only those of old classes differ.
        logits: The classifier's output: for new samples in this step, for replayed ones when they were stored.
        slot: The slot of a replayed sample in the memory.
        old: True where the sample's class belongs to an earlier task; None means all are old.

    Example:
        >>> moca.Batch(features=torch.zeros(4, 32), old=torch.tensor([True, True, False, False]))
        Batch(features=float32 of (4, 32), old=bool of (4,))
    """

    image: Tensor
    x: Tensor
    y: Tensor
    features: Tensor
    moved: Tensor
    logits: Tensor
    slot: Tensor
    old: Tensor | None = None

    def __init__(self, **fields: Unpack[Fields]) -> None:
        if unknown := fields.keys() - Batch.__annotations__.keys():
            raise ValueError(f"a batch has no field '{unknown.pop()}'; it has {', '.join(Batch.__annotations__)}")
        self.__dict__.update(fields)

    def __repr__(self) -> str:
        return f"Batch({', '.join(f'{name}={in_short(value)}' for name, value in vars(self).items())})"

    def __getattr__(self, name: str) -> Tensor:
        if name not in Batch.__annotations__:
            raise AttributeError(f"a batch has no field '{name}'; it has {', '.join(Batch.__annotations__)}")
        kept = "; a learner that says keeps = ('logits',) has them of replayed samples" if name == "logits" else ""
        raise AttributeError(f"this needs a batch with '{name}': Batch({name}=...){kept}")

    def replace(self, **fields: Unpack[Fields]) -> Self:
        """A copy of the batch with some fields replaced."""
        return type(self)(**{**self.__dict__, **fields})


def in_short(tensor: object) -> str:
    """Dtype and shape of a tensor, for the repr of a container."""
    if not isinstance(tensor, Tensor):
        return repr(tensor)
    return f"{str(tensor.dtype).removeprefix('torch.')} of {tuple(tensor.shape)}"


def paired(rows: Tensor, count: int) -> Tensor:
    """`count` rows, one for each replayed sample: the given rows, repeated from the start if there are too few."""
    if not len(rows):
        raise ValueError("the new batch has no samples to go by; leave the perturbation out of such a step")
    return rows if len(rows) == count else rows[torch.arange(count, device=rows.device) % len(rows)]
