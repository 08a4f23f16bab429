"""The base class of all perturbations: which rows move, how far, and that no gradient flows through the direction."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from moca import sphere
from moca.batch import Batch, in_short
from moca.errors import MocaError
from moca.parts import Part, option
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
        lr: float | Tensor | None = None,
        classes: int | None = None,
    ) -> Self:
        """Set what the perturbation works with."""
        kind = type(self)
        if self.moves and kind.direction is Perturbation.direction and kind.__call__ is Perturbation.__call__:
            raise self._undefined()
        refuse_misfits(self, Perturbation, ("direction", "__call__", "grow"))
        _refuse_no_rate(lr)
        _refuse_no_count(classes)
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
        if not isinstance(replay, Batch):
            raise TypeError(f"a perturbation moves a moca.Batch(features=h, old=...), not {type(replay).__name__}")
        if new is not None and not isinstance(new, Batch):
            raise TypeError(f"the new samples are a moca.Batch(features=h_new, ...), not {type(new).__name__}")
        h, old = replay.features, replay.old
        if not isinstance(h, Tensor):
            raise TypeError(f"features= is a tensor, not {type(h).__name__}")
        if h.dim() != 2 or not h.is_floating_point():
            kind = f"{str(h.dtype).removeprefix('torch.')} of {tuple(h.shape)}"
            raise ValueError(f"features= are floats of (n, d), one vector a sample, not {kind}; flatten or pool them")
        if old is not None and not (isinstance(old, Tensor) and old.dtype == torch.bool and old.shape == h.shape[:1]):
            raise ValueError(f"old= is a tensor of {len(h)} truth values, one for each row of features")
        if self.needs_images and len(x := getattr(replay, "x", h)) != len(h):
            raise ValueError(f"x= has {len(x)} samples and features= {len(h)} rows; give both of the same samples")
        beside = getattr(new, "features", h)
        if isinstance(beside, Tensor) and beside.shape[1:] != h.shape[1:]:
            raise ValueError(
                f"features of new samples are {tuple(beside.shape)} and of replayed ones {tuple(h.shape)}; take both "
                "from the same layer"
            )
        if not len(h):
            return h
        if not hasattr(self, "random"):  # created from its class rather than by moca.perturbation
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
        """The learner's current learning rate."""
        if self._lr is None:
            raise ValueError("this perturbation needs lr=, the current learning rate (a tensor follows a schedule)")
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


def class_numbers(y: Tensor, rows: int, classes: int) -> Tensor:
    """The labels of some rows, which must be classes from 0 to `classes` - 1. On a GPU only their type and shape are
    checked, because reading them would stall the step."""
    if not isinstance(y, Tensor) or y.dtype != torch.int64 or y.shape != (rows,):
        raise ValueError(f"y= is a tensor of class numbers, int64 of ({rows},), one for each row, not {in_short(y)}")
    if y.is_cpu and rows and not torch.compiler.is_compiling():
        low, high = map(int, y.aminmax())
        if low < 0 or high >= classes:
            wrong = low if low < 0 else high
            raise ValueError(f"y= has a label {wrong}, but classes are 0 to {classes - 1}: there are {classes} of them")
    return y


def uphill(model: Model, replay: Batch) -> Tensor:
    """The gradient of CE(g(h), y) with respect to h for each replayed sample, whose feature is h."""
    with torch.enable_grad():
        h = replay.features.detach().to(model.dtype).requires_grad_()
        return torch.autograd.grad(label_loss(model, h, replay.y), h)[0]


class _NoBatch(Batch):
    """Stands for a new batch that was left out: reading any of its fields raises."""

    def __getattr__(self, name: str) -> Tensor:
        raise AttributeError(f"this perturbation looks at the new batch too: perturb(replay, Batch({name}=...))")


def _refuse_no_rate(lr: object) -> None:
    number = isinstance(lr, Real) or (isinstance(lr, Tensor) and lr.numel() == 1)
    if lr is not None and not number:
        rate = "; of an optimiser .param_groups[0]['lr']" * hasattr(lr, "param_groups")
        got = repr(lr) if isinstance(lr, str) else f"a {type(lr).__name__}"
        raise TypeError(f"lr= is the current learning rate, a number or a tensor of one, not {got}{rate}")


def _refuse_no_count(classes: object) -> None:
    if classes is not None and (type(classes) is bool or not isinstance(classes, Integral) or classes < 1):
        raise TypeError(f"classes= is how many classes there are or will be, a whole number, not {classes!r}")


def _required(value: T | None, what: str) -> T:
    if value is None:
        raise ValueError(f"this perturbation needs {what}")
    return value
