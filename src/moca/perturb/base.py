"""What every perturbation shares: which rows move, how far, and that the direction is never differentiated."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import torch
from torch import Tensor

from moca import sphere
from moca.batch import Batch
from moca.random import Random
from moca.settings.perturb import PerturbSettings
from moca.state import Stateful

if TYPE_CHECKING:
    from moca.models import Model

S = TypeVar("S", bound=PerturbSettings)
T = TypeVar("T")


class Perturbation(Stateful, Generic[S]):
    """Moves the features of replayed old-class samples on their sphere: f = ||h|| P(P(h) + lambda P(n)).

    A variant says only which way: `direction` returns n. Some ask for the model, the learning
    rate or the number of classes.
    """

    def __init__(
        self,
        settings: S,
        random: Random,
        model: Model | None = None,
        lr: float | Tensor | None = None,
        classes: int | None = None,
    ) -> None:
        self.settings, self.random, self._model, self._lr, self._classes = settings, random, model, lr, classes
        for name in self.needs:
            getattr(self, name)

    @property
    def needs(self) -> tuple[str, ...]:
        """What it cannot do without, of model, lr and classes."""
        return ()

    def direction(self, replay: Batch, new: Batch) -> Tensor:
        """n, one row for each replayed sample; of any length, zero where there is no way to go."""
        raise NotImplementedError

    @property
    def unit(self) -> bool:
        """Whether n is scaled to unit length."""
        return True

    def __call__(self, replay: Batch, new: Batch | None = None) -> Tensor:
        """The features of `replay`, those of old classes moved."""
        if not isinstance(replay, Batch):
            raise TypeError(f"a perturbation moves a moca.Batch(features=h, old=...), not a {type(replay).__name__}")
        h, old = replay.features, replay.old
        if old is not None and not (isinstance(old, Tensor) and old.dtype == torch.bool and old.shape == h.shape[:1]):
            raise ValueError(f"old= is a tensor of {len(h)} truth values, one for each row of features")
        self.random.to(h.device)
        with torch.no_grad():
            n = self.direction(replay, new or _NoBatch()).to(h.dtype)
        return self._move(h, n, old)

    def _move(self, h: Tensor, n: Tensor, old: Tensor | None) -> Tensor:
        if self.settings.fixed_angle is not None:
            f = sphere.rotate(h, n, math.radians(self.settings.fixed_angle))
        else:
            f = sphere.displace(h, n, self.settings.lam, self.unit, old)
            if self.settings.angle_cap is None:
                return f
            f = sphere.cap(h, f, math.radians(self.settings.angle_cap))
        return f if old is None else torch.where(old.unsqueeze(-1), f, h)

    @property
    def model(self) -> Model:
        """The model, for the variants that ask it."""
        fits = self._model if hasattr(self._model, "classify") else None
        return _asked(fits, "model=, a moca.Model(encoder, classifier)")

    @property
    def lr(self) -> float | Tensor:
        """The learner's current learning rate."""
        if self._lr is None:
            raise ValueError("this perturbation needs lr=, the current learning rate (a tensor follows a schedule)")
        return self._lr

    @property
    def classes(self) -> int:
        """How many classes there are or will be."""
        return _asked(self._classes, "classes=, the number of classes")

    def state(self) -> dict[str, Any]:
        """What the perturbation must keep to go on exactly."""
        return {"random": self.random.state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from where `state` was taken."""
        self.random.load_state_dict(state["random"])


class Unmoved(Perturbation[Any]):
    """Plain replay: every feature stays where it is."""

    def __call__(self, replay: Batch, new: Batch | None = None) -> Tensor:
        """The features of `replay`."""
        return replay.features


class _NoBatch(Batch):
    """Where the new batch was left out."""

    def __getattr__(self, name: str) -> Tensor:
        raise AttributeError(f"this perturbation looks at the new batch too: perturb(replay, Batch({name}=...))")


def _asked(value: T | None, what: str) -> T:
    if value is None:
        raise ValueError(f"this perturbation needs {what}")
    return value
