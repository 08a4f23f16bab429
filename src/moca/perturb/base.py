"""What every perturbation shares: which rows move, how far, and that the direction is never differentiated."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from moca import sphere
from moca.batch import Batch
from moca.errors import MocaError
from moca.parts import Part, option
from moca.random import Random
from moca.state import Stateful

if TYPE_CHECKING:
    from moca.models import Model

T = TypeVar("T")


class Perturbation(Part, Stateful):
    """Moves the features of replayed old-class samples on their sphere: f = ||h|| P(P(h) + lambda P(n)).

    A variant says only which way: `direction` returns n. Some ask for the model, the learning rate or the number of
    classes. Options are declared with `option`, and what must survive a checkpoint is named in `remembers`.

    Args:
        **options: Those of the variant, and those that all have: `lam` (`lambda` where it is written as a text), the
            length of the unit direction that is added to the unit feature; or `fixed_angle`, by how many degrees to
            rotate instead; or `angle_cap`, by how many at most.
    """

    lam: float = option(2.0, "length of the unit direction added to the unit feature", ge=0, alias="lambda")
    fixed_angle: float | None = option(None, "rotate by exactly this many degrees instead", gt=0, lt=180)
    angle_cap: float | None = option(None, "rotate by at most this many degrees", gt=0, lt=180)
    cap: Literal["exact", "official"] = option(
        "exact",
        "what angle_cap limits: the result, or (official) the direction before lambda, which lets more pass above 1",
    )

    moves: ClassVar[bool] = True
    """Whether features are moved at all."""
    needs_images: ClassVar[str] = ""
    """Why it can move nothing but samples with their images, if so."""
    official_pass: ClassVar[str | None] = None
    """What the official code passes through the network for it besides (n: new batch, b: replay batch), where known."""
    recipes: ClassVar[dict[str, dict[str, Any]]] = {
        "online": {"lambda": 0.8},
        "proxy": {"lambda": 1.0},
        "small": {"lambda": 1.0},
        "own": {"lambda": 0.5},
    }
    """Options, where they differ from their defaults, by the name of the protocol (`offline`), of data set and
    protocol (`cifar100/offline`), or of these and the size of the memory (`cifar100/offline/500`)."""

    remembers: ClassVar[tuple[str, ...]] = ("random",)
    random: Random
    """Random numbers of the perturbation's own: `self.random.normal(n, d)`."""

    def check(self) -> None:
        """Refuse options that do not go together: two angles."""
        if self.fixed_angle is not None and self.angle_cap is not None:
            raise MocaError("fixed_angle and angle_cap exclude each other; give one of them")

    def attach(
        self,
        random: Random | None = None,
        model: Model | None = None,
        lr: float | Tensor | None = None,
        classes: int | None = None,
    ) -> Self:
        """Take what the perturbation works with."""
        self.random, self._model, self._lr, self._classes = random or Random(0, "perturb"), model, lr, classes
        for name in self.needs:
            getattr(self, name)  # what is missing is told here, not in the middle of training
        return self

    @property
    def needs(self) -> tuple[str, ...]:
        """What it cannot do without, of model, lr and classes."""
        return ()

    def direction(self, replay: Batch, new: Batch) -> Tensor:
        """The direction n, one row for each replayed sample; of any length, zero where there is no way to go."""
        raise MocaError(f"'{type(self).__name__}' has no method direction(self, replay, new), which it needs")

    @property
    def scaled(self) -> bool:
        """Whether n is scaled to unit length."""
        return True

    def __call__(self, replay: Batch, new: Batch | None = None) -> Tensor:
        """The features of `replay`, those of old classes moved.

        Args:
            replay: The replayed samples: `features`, `old` where not all rows move, and what else it asks for.
            new: The new samples, where it looks at them.
        """
        if not isinstance(replay, Batch):
            raise TypeError(f"a perturbation moves a moca.Batch(features=h, old=...), not {type(replay).__name__}")
        h, old = replay.features, replay.old
        if not isinstance(h, Tensor):
            raise TypeError(f"features= is a tensor, not {type(h).__name__}")
        if h.dim() != 2 or not h.is_floating_point():
            kind = f"{str(h.dtype).removeprefix('torch.')} of {tuple(h.shape)}"
            raise ValueError(f"features= are floats of (n, d), one vector a sample, not {kind}; flatten or pool them")
        if old is not None and not (isinstance(old, Tensor) and old.dtype == torch.bool and old.shape == h.shape[:1]):
            raise ValueError(f"old= is a tensor of {len(h)} truth values, one for each row of features")
        if not len(h):
            return h
        if not hasattr(self, "random"):  # made by its class, not by moca.perturbation
            self.attach()
        self.random.to(h.device)
        with torch.no_grad():
            n = self.direction(replay, _NoBatch() if new is None else new)
        if not isinstance(n, Tensor) or n.shape != h.shape:
            got = f"one of {tuple(n.shape)}" if isinstance(n, Tensor) else f"a {type(n).__name__}"
            name = type(self).__name__
            raise MocaError(f"direction of '{name}' must return a tensor of {tuple(h.shape)}, not {got}")
        return self._move(h, n.detach().to(h.dtype), old)

    def _move(self, h: Tensor, n: Tensor, old: Tensor | None) -> Tensor:
        if self.fixed_angle is not None:
            f = sphere.rotate(h, n, math.radians(self.fixed_angle))
        elif self.angle_cap is None:
            return sphere.displace(h, n, self.lam, self.scaled, old)
        elif self.cap == "official":
            limited = sphere.official_limit(h, n, math.radians(self.angle_cap))
            return sphere.displace(h, limited, self.lam, False, old)
        else:
            f = sphere.cap(h, sphere.displace(h, n, self.lam, self.scaled), math.radians(self.angle_cap))
        return f if old is None else torch.where(old.unsqueeze(-1), f, h)

    def grow(self, classes: int) -> None:
        """Make room for more classes."""
        self._classes = classes

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


def label_loss(model: Model, h: Tensor, y: Tensor) -> Tensor:
    """CE(g(h), y), the sum over the rows; of several outputs a class, the first is the class itself."""
    return F.cross_entropy(model.classify(h), model.outputs * y, reduction="sum")


def uphill(model: Model, replay: Batch) -> Tensor:
    """The gradient of each replayed sample's CE(g(h), y) with respect to its feature h."""
    with torch.enable_grad():
        h = replay.features.detach().to(model.dtype).requires_grad_()
        return torch.autograd.grad(label_loss(model, h, replay.y), h)[0]


class _NoBatch(Batch):
    """Where the new batch was left out."""

    def __getattr__(self, name: str) -> Tensor:
        raise AttributeError(f"this perturbation looks at the new batch too: perturb(replay, Batch({name}=...))")


def _asked(value: T | None, what: str) -> T:
    if value is None:
        raise ValueError(f"this perturbation needs {what}")
    return value
