"""Teacher: any learner with a moving average of its weights to distil from; Mean-ER, CLS-ER, MKD.

Paper: Arani et al., ICLR 2022, arXiv 2201.12604 (mean, cls); Michel et al., ICML 2024, arXiv 2309.02870 (mkd).
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from moca.batch import Batch
from moca.errors import MocaError
from moca.learners.base import Learner, Losses, OfficialPasses
from moca.models.batch_norm.batches import batches_apart
from moca.models.model import Model
from moca.parts import LEARNERS, option
from moca.perturb.base import Perturbation
from moca.settings.choice import choice_of

if TYPE_CHECKING:
    from moca.streams import Task


class Strength(NamedTuple):
    """How much a teacher counts, what it keeps of itself, and the share of steps in which it follows."""

    weight: float
    decay: float
    rate: float


_FORMS = {"mean": Strength(0.15, 0.999, 1.0), "cls": Strength(0.15, 0.999, 0.7), "mkd": Strength(5.5, 0.99, 1.0)}
"""As the papers have them."""
_FACTS = [
    name
    for name in Learner.__annotations__
    if name in vars(Learner) and name not in {"remembers", "recipes", *Learner.options}
]
"""What a learner declares about itself: draws, keeps, store, ..."""


class Teacher(Learner):
    """Around a learner: teachers follow its weights slowly, and its logits are drawn towards theirs.

    mean: one teacher, replayed samples, squared error; it is tested. cls: a stable and a plastic one, of which the
    better at each sample teaches; the stable one is tested. mkd: one teacher, new samples too, Kullback-Leibler with a
    temperature; the mean of both networks is tested.
    """

    of: str = option("er", "the learner, in short; its own options are separated by /: derpp:alpha=0.2/beta=0.5")
    form: Literal["mean", "cls", "mkd"] = option("mean", "Mean-ER, CLS-ER or momentum knowledge distillation")
    weight: float | None = option(None, "weight of the teacher's term [default: 0.15; mkd: 5.5]", ge=0)
    decay: float | None = option(None, "share of itself a teacher keeps [default: 0.999; mkd: 0.99]", ge=0, lt=1)
    rate: float | None = option(None, "share of steps in which the teacher follows [default: 1; cls: 0.7]", gt=0, le=1)
    plastic_rate: float = option(0.9, "the same for the plastic teacher of cls", gt=0, le=1)
    temperature: float = option(4.0, "of mkd", gt=0)
    tested: Literal["teacher", "student"] = option(
        "teacher", "which network is tested: that of its form, or the learner's own"
    )

    remembers = ("inner", "stable", "plastic", "steps")

    def check(self) -> None:
        """Make the learner within, whose facts are those of the whole."""
        self.inner: Learner = choice_of(LEARNERS, self.of.replace("/", ",")).make()
        if isinstance(self.inner, Teacher):
            raise MocaError(f"of = '{self.of}': a teacher is around a learner, not around another teacher")
        if self.inner.adjust:
            raise MocaError(f"of = '{self.of}': adjust is an option of the teacher, as in teacher:of=er,adjust=1")
        for fact in _FACTS:
            setattr(self, fact, getattr(self.inner, fact))
        super().check()
        inner = {place: _without(recipe, self.inner.options) for place, recipe in self.inner.recipes.items()}
        self.recipes = inner | {"small": {**inner.get("small", {}), "decay": 0.98}}  # type: ignore[misc]

    def __getattr__(self, name: str) -> Any:
        """What its memory's policies ask of the learner within."""
        if name == "inner" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.inner, name)

    @property
    def strength(self) -> Strength:
        """What was given, and else that of the form."""
        given = {"weight": self.weight, "decay": self.decay, "rate": self.rate}
        return _FORMS[self.form]._replace(**{name: value for name, value in given.items() if value is not None})

    def attach(self, model: Model, classes: int, **given: Any) -> Self:
        """The learner within works on the same."""
        self.inner.attach(model, classes, **given)
        return super().attach(model, classes, **given)

    def prepare(self) -> None:
        """The teachers begin as the network does."""
        self.stable = deepcopy(self.model).requires_grad_(False).train()
        self.plastic = deepcopy(self.stable) if self.form == "cls" else None
        self.steps = torch.zeros((), device=self.came.device)
        self.rates = torch.tensor([self.strength.rate, self.plastic_rate], device=self.came.device)

    @property
    def teachers(self) -> list[Model]:
        """The stable one, and the plastic one where there is one."""
        return [self.stable] if self.plastic is None else [self.stable, self.plastic]

    def begin_task(self, task: Task) -> None:
        """Of the learner within."""
        super().begin_task(task)
        self.inner.begin(task)

    def losses(self, new: Batch, *replays: Batch) -> Losses:
        """Those of the learner within, and how far its logits are from the teachers'."""
        losses = self.inner.losses(new, *replays)
        batches = [new, *replays] if self.form == "mkd" else list(replays)
        if batches:
            logits = torch.cat([self.model.classify(batch.features) for batch in batches])
            losses["teacher"] = self.strength.weight * self._distance(logits, self._taught(batches))
        return losses

    @torch.no_grad()
    def _taught(self, batches: list[Batch]) -> Tensor:
        """Logits of the teachers, in training mode as the student is; their running statistics stay as they are."""
        x, sizes = torch.cat([batch.x for batch in batches]), [len(batch.x) for batch in batches]
        with batches_apart([len(x)] if self.together else sizes, ()):
            taught = torch.stack([teacher(x) for teacher in self.teachers])
        if self.plastic is None:
            return taught[0]
        y = torch.cat([batch.y for batch in batches]).unsqueeze(1)
        stable, plastic = (logits.softmax(1).gather(1, y) for logits in taught)
        return torch.where(stable > plastic, taught[0], taught[1])

    def _distance(self, logits: Tensor, taught: Tensor) -> Tensor:
        if self.form != "mkd":
            return F.mse_loss(logits, taught)
        t = self.temperature
        there, here = (taught / t).log_softmax(1), (logits / t).log_softmax(1)
        return t**2 * F.kl_div(here, there, reduction="batchmean", log_target=True)

    def update(self, losses: Losses, optimiser: torch.optim.Optimizer) -> None:
        """A step of the learner within, to which the teacher's term is part of its first; the teachers follow."""
        rest = {name: loss for name, loss in losses.items() if name != "teacher"}
        if "teacher" in losses:
            first = next(iter(rest))
            rest[first] = rest[first] + losses["teacher"]
        self.inner.update(rest, optimiser)
        self._follow()

    @torch.no_grad()
    def _follow(self) -> None:
        """theta <- a theta + (1 - a) student with a = min(t / (t + 1), decay): at first a plain mean. So do the running
        statistics of BatchNorm."""
        share = (1 / (self.steps + 1)).clamp_min(1 - self.strength.decay)
        now = self.random.uniform(2) < self.rates
        for teacher, moves in zip(self.teachers, now.unbind(), strict=False):
            kept, student = _numbers(teacher), _numbers(self.model)
            way = torch._foreach_mul(torch._foreach_sub(student, kept), share * moves)
            torch._foreach_add_(kept, way)
        self.steps += 1

    def end_task(self, samples: Batch) -> None:
        """Of the learner within."""
        self.inner.end_task(samples)

    @property
    def ends_tasks(self) -> bool:
        """Whether the learner within does something then."""
        return self.inner.ends_tasks

    @property
    def tests_model(self) -> bool:
        """Where the student is tested; learners that do not predict by logits go on as they do."""
        return self.tested == "student" or type(self.inner).predict is not Learner.predict

    def predict(self, x: Tensor) -> Tensor:
        """By the teacher, or by the mean of both networks, unless the student is tested."""
        if self.tests_model:
            return self.inner.predict(x)
        self.stable.eval()
        tensors = dict(self.stable.state_dict())
        if self.form == "mkd":
            student = self.model.state_dict()
            tensors |= {k: (v + student[k]) / 2 for k, v in tensors.items() if v.is_floating_point()}
        logits: Tensor = torch.func.functional_call(self.stable, tensors, (x,))
        self.stable.train()
        return self.inner.scores(logits)

    def grow(self, classes: int) -> None:
        """Room for more classes, in the teachers as in the network."""
        super().grow(classes)
        self.inner.grow(classes)
        for teacher in self.teachers:
            teacher.grow_like(self.model)

    def see(self, new: Batch) -> Batch:
        """Of the learner within."""
        return self.inner.see(new)

    def encode(self, x: Tensor) -> Tensor:
        """Of the learner within."""
        return self.inner.encode(x)

    @property
    def outputs(self) -> int:
        """As the learner within."""
        return self.inner.outputs

    @property
    def together(self) -> bool:
        """As the learner within."""
        return self.inner.together

    def official_passes(self, perturbation: Perturbation) -> OfficialPasses | None:
        """Of the learner within."""
        return self.inner.official_passes(perturbation)


def _without(recipe: Mapping[str, Any], options: Container[str]) -> dict[str, Any]:
    """Settings of the run; options of the learner within stay as they are."""
    return {name: value for name, value in recipe.items() if name not in options}


def _numbers(model: Model) -> list[Tensor]:
    """Parameters and running statistics."""
    return [tensor for tensor in model.state_dict().values() if tensor.is_floating_point()]
