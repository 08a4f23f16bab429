"""A batch of samples as it travels from the stream or the memory to the losses."""

from typing import Self

from torch import Tensor


class Batch:
    """Samples of a step, one row each. Give what the learner or perturbation at hand uses; it asks if it needs more."""

    x: Tensor
    """Images as the encoder sees them."""
    y: Tensor
    """Class labels."""
    features: Tensor
    """h(x), the encoder's output."""
    logits: Tensor
    """The classifier's output: of this step for new samples, of the time of storing for replayed ones."""
    old: Tensor | None = None
    """True where the sample's class belongs to an earlier task; None means everywhere."""

    def __init__(self, **fields: Tensor) -> None:
        if unknown := fields.keys() - Batch.__annotations__.keys():
            raise ValueError(f"a batch has no field '{unknown.pop()}'; it has {', '.join(Batch.__annotations__)}")
        self.__dict__.update(fields)

    def __getattr__(self, name: str) -> Tensor:
        raise AttributeError(f"this needs a batch with '{name}': Batch({name}=...)")

    def having(self, **fields: Tensor) -> Self:
        """The same batch with some fields set."""
        return type(self)(**(self.__dict__ | fields))
