"""The base class of all perturbations: which rows move, how far, and that no gradient flows through the direction."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.optim import Optimizer

from moca import sphere
from moca.batch import Batch
from moca.errors import MocaError
from moca.parts import Part, option
from moca.perturb_checks import class_numbers, refuse_no_count, refuse_no_direction, refuse_no_rate, refuse_unfit
from moca.random import Random
from moca.signatures import refuse_misfits
from moca.state import Stateful

if TYPE_CHECKING:
    from moca.models import Model

T = TypeVar("T")


class Perturbation(Part, Stateful):
    """Moves the features of replayed old-class samples on their sphere: f = ||h|| P(P(h) + lambda P(n)).

    A variant only defines `direction`, which returns n. Some variants use the model, the learning rate or the number of
    classes. Declare options with `option`, and list in `remembers` the attributes that a checkpoint must save.

    Args:
        **options: The variant's own options, and those of every perturbation: `lam` (`lambda` in a string), the length
            of the unit direction added to the unit feature; `fixed_angle`, to rotate by exactly this many degrees
            instead; or `angle_cap`, to rotate by at most this many.
    """

    lam: float = option(2.0, "length of the unit direction added to the unit feature", ge=0, alias="lambda")
    fixed_angle: float | None = option(None, "rotate by exactly this many degrees instead", gt=0, lt=180)
    angle_cap: float | None = option(None, "rotate by at most this many degrees", gt=0, lt=180)
    cap: Literal["exact", "official"] = option(
        "exact",
        "what angle_cap limits: the result, or (official) the direction before lambda, so that a lambda above 1 can "
        "exceed the cap",
    )

    moves: ClassVar[bool] = True
    """Whether it moves features at all."""
    needs_images: ClassVar[str] = ""
    """Why it needs the images of the replayed samples; empty if features are enough."""
    official_pass: ClassVar[str | None] = None
    """The extra forward pass that the official code makes for it (n: new batch, b: replay batch); None if unknown."""
    recipes: ClassVar[dict[str, dict[str, Any]]] = {
        "online": {"lambda": 0.8},
        "proxy": {"lambda": 1.0},
        "small": {"lambda": 1.0},
        "own": {"lambda": 0.5},
    }
    """Options that differ from their defaults. Keys are a protocol (`offline`), data set and protocol
    (`cifar100/offline`), or these and the memory size (`cifar100/offline/500`)."""

    remembers: ClassVar[tuple[str, ...]] = ("random",)
    random: Random
    """The perturbation's own random numbers: `self.random.normal(n, d)`."""

    def check(self) -> None:
        """Refuse `fixed_angle` together with `angle_cap`."""
        if self.fixed_angle is not None and self.angle_cap is not None:
            raise MocaError("fixed_angle and angle_cap exclude each other; give one of them")

    def attach(
        self,
        random: Random | None = None,
        model: Model | None = None,
        lr: float | Tensor | Optimizer | None = None,
        classes: int | None = None,
    ) -> Self:
        """Set what the perturbation works with."""
        kind = type(self)
        if self.moves and kind.direction is Perturbation.direction and kind.__call__ is Perturbation.__call__:
            raise self._undefined()
        refuse_misfits(self, Perturbation, ("direction", "__call__", "grow"))
        refuse_no_rate(lr)
        refuse_no_count(classes)
        self.random, self._model, self._lr, self._classes = random or Random(0, "perturb"), model, lr, classes
        for name in self.needs:
            getattr(self, name)  # raises here if something is missing, not in the middle of training
        return self

    @property
    def needs(self) -> tuple[str, ...]:
        """Which of model, lr and classes it requires."""
        return ()

    def direction(self, replay: Batch, new: Batch) -> Tensor:
        """The direction n, one row per replayed sample, of any length; a zero row moves nothing."""
        raise self._undefined()

    def _undefined(self) -> MocaError:
        return MocaError(f"'{type(self).__name__}' has no method direction(self, replay, new), which it needs")

    @property
    def scaled(self) -> bool:
        """Whether n is scaled to unit length."""
        return True

    def __call__(self, replay: Batch, new: Batch | None = None) -> Tensor:
        """Return the features of `replay`, with those of old classes moved.

        Args:
            replay: The replayed samples: `features`; `old`, if not all rows move; and other fields that it uses.
            new: The new samples, if it uses them.
        """
        refuse_unfit(replay, new, bool(self.needs_images))
        h, old = replay.features, replay.old
        if not len(h):
            return h
        if not hasattr(self, "random"):  # created from its class rather than by moca.perturbation
            self.attach()
        self.random.to(h.device)
        with torch.no_grad():
            n = self.direction(replay, _NoBatch() if new is None else new)
        refuse_no_direction(n, h, type(self).__name__)
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

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state, which must be of the same kind of perturbation."""
        own = self._remembered()
        if not isinstance(state, dict) or state.keys() != set(own):
            got = ", ".join(map(str, state)) or "nothing" if isinstance(state, dict) else f"a {type(state).__name__}"
            raise MocaError(
                f"a state of '{type(self).__name__}' holds {', '.join(own)}, not {got}; load one of its own"
            )
        super().load_state_dict(state)

    def grow(self, classes: int) -> None:
        """Extend the state to this many classes."""
        self._classes = classes

    @property
    def model(self) -> Model:
        """The model, for the variants that use it."""
        fits = self._model if hasattr(self._model, "classify") else None
        return _required(fits, "model=, a moca.Model(encoder, classifier)")

    @property
    def lr(self) -> float | Tensor:
        """The learner's current learning rate; of an optimiser, that of its first group."""
        if self._lr is None:
            raise ValueError("this perturbation needs lr=, the optimiser, or its learning rate if that never changes")
        if isinstance(self._lr, Optimizer):
            rate: float | Tensor = self._lr.param_groups[0]["lr"]
            return rate
        return self._lr

    @property
    def classes(self) -> int:
        """How many classes there are or will be."""
        return _required(self._classes, "classes=, the number of classes")


def label_loss(model: Model, h: Tensor, y: Tensor) -> Tensor:
    """CE(g(h), y), summed over the rows. If the model has several outputs per class, the first is the class itself."""
    logits = model.classify(h)
    y = class_numbers(y, len(h), logits.shape[1] // model.outputs)
    return F.cross_entropy(logits, model.outputs * y, reduction="sum")


def uphill(model: Model, replay: Batch) -> Tensor:
    """The gradient of CE(g(h), y) with respect to h for each replayed sample, whose feature is h."""
    with torch.enable_grad():
        h = replay.features.detach().to(model.dtype).requires_grad_()
        return torch.autograd.grad(label_loss(model, h, replay.y), h)[0]


class _NoBatch(Batch):
    """Stands for a new batch that was left out: reading any of its fields raises."""

    def __getattr__(self, name: str) -> Tensor:
        raise AttributeError(f"this perturbation looks at the new batch too: perturb(replay, Batch({name}=...))")


def _required(value: T | None, what: str) -> T:
    if value is None:
        raise ValueError(f"this perturbation needs {what}")
    return value
