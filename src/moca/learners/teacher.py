"""Teacher: any learner, distilled from a moving average of its weights; Mean-ER, CLS-ER, MKD.

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
    """The weight of the distillation term, the decay of the moving average, and the share of steps that update it."""

    weight: float
    decay: float
    rate: float


_FORMS = {"mean": Strength(0.15, 0.999, 1.0), "cls": Strength(0.15, 0.999, 0.7), "mkd": Strength(5.5, 0.99, 1.0)}
"""The papers' values."""
_DECLARATIONS = [
    name
    for name in Learner.__annotations__
    if name in vars(Learner) and name not in {"remembers", "recipes", *Learner.options}
]
"""The class attributes that a learner declares for the engine: draws, keeps, store, ..."""


class Teacher(Learner):
    """Wraps a learner: teachers are moving averages of its weights, and its logits are pulled towards theirs.

    mean: one teacher, on replayed samples, squared error; the teacher is tested. cls: a stable and a plastic teacher;
    for each sample, the one more confident of its label teaches; the stable one is tested. mkd: one teacher, on new
    samples too, Kullback-Leibler divergence at a temperature; the mean of both networks' weights is tested.
    """

    of: str = option("er", "the wrapped learner; its own options are separated by /: derpp:alpha=0.2/beta=0.5")
    form: Literal["mean", "cls", "mkd"] = option("mean", "Mean-ER, CLS-ER or momentum knowledge distillation")
    weight: float | None = option(None, "weight of the teacher's term [default: 0.15; mkd: 5.5]", ge=0)
    decay: float | None = option(None, "decay of the moving average [default: 0.999; mkd: 0.99]", ge=0, lt=1)
    rate: float | None = option(None, "share of steps that update the teacher [default: 1; cls: 0.7]", gt=0, le=1)
    plastic_rate: float = option(0.9, "the same for the plastic teacher of cls", gt=0, le=1)
    temperature: float = option(4.0, "of mkd", gt=0)
    tested: Literal["teacher", "student"] = option(
        "teacher", "which network is tested: the one of the form (teacher), or the learner's own (student)"
    )

    remembers = ("inner", "stable", "plastic", "steps")

    def check(self) -> None:
        """Create the inner learner and take over its declarations."""
        self.inner: Learner = choice_of(LEARNERS, self.of.replace("/", ",")).make()
        if isinstance(self.inner, Teacher):
            raise MocaError(f"of = '{self.of}': a teacher is around a learner, not around another teacher")
        if self.inner.adjust:
            raise MocaError(f"of = '{self.of}': adjust is an option of the teacher, as in teacher:of=er,adjust=1")
        for name in _DECLARATIONS:
            setattr(self, name, getattr(self.inner, name))
        super().check()
        inner = {place: _without(recipe, self.inner.options) for place, recipe in self.inner.recipes.items()}
        few_steps = {place: {**inner.get(place, {}), "decay": 0.98} for place in ("small", "own")}
        self.recipes = inner | few_steps  # type: ignore[misc]

    def __getattr__(self, name: str) -> Any:
        """Other attributes are the inner learner's; its memory policies read them."""
        if name == "inner" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.inner, name)

    @property
    def strength(self) -> Strength:
        """The values of the options, or of the form where an option is not set."""
        given = {"weight": self.weight, "decay": self.decay, "rate": self.rate}
        return _FORMS[self.form]._replace(**{name: value for name, value in given.items() if value is not None})

    def attach(self, model: Model, classes: int, **given: Any) -> Self:
        """Attach the inner learner to the same objects."""
        self.inner.attach(model, classes, **given)
        return super().attach(model, classes, **given)

    def prepare(self) -> None:
        """Create the teachers as copies of the model."""
        self.stable = deepcopy(self.model).requires_grad_(False).train()
        self.plastic = deepcopy(self.stable) if self.form == "cls" else None
        self.steps = torch.zeros((), device=self.came.device)
        self.rates = torch.tensor([self.strength.rate, self.plastic_rate], device=self.came.device)

    @property
    def teachers(self) -> list[Model]:
        """The stable teacher, and the plastic one if there is one."""
        return [self.stable] if self.plastic is None else [self.stable, self.plastic]

    def begin_task(self, task: Task) -> None:
        """Start the task in the inner learner, too."""
        super().begin_task(task)
        self.inner.begin(task)

    def losses(self, new: Batch, *replays: Batch) -> Losses:
        """The inner learner's losses + weight * distance(logits, teacher's logits)."""
        losses = self.inner.losses(new, *replays)
        batches = [new, *replays] if self.form == "mkd" else list(replays)
        if batches:
            logits = torch.cat([self.model.classify(batch.features) for batch in batches])
            losses["teacher"] = self.strength.weight * self._distance(logits, self._teacher_logits(batches))
        return losses

    @torch.no_grad()
    def _teacher_logits(self, batches: list[Batch]) -> Tensor:
        """Logits of the teachers in training mode, like the student's; their running statistics are not updated."""
        x, sizes = torch.cat([batch.x for batch in batches]), [len(batch.x) for batch in batches]
        with batches_apart([len(x)] if self.together else sizes, ()):
            of_each = torch.stack([teacher(x) for teacher in self.teachers])
        if self.plastic is None:
            return of_each[0]
        y = torch.cat([batch.y for batch in batches]).unsqueeze(1)
        stable, plastic = (logits.softmax(1).gather(1, y) for logits in of_each)
        return torch.where(stable > plastic, of_each[0], of_each[1])

    def _distance(self, logits: Tensor, teacher_logits: Tensor) -> Tensor:
        if self.form != "mkd":
            return F.mse_loss(logits, teacher_logits)
        t = self.temperature
        teacher, student = (teacher_logits / t).log_softmax(1), (logits / t).log_softmax(1)
        return t**2 * F.kl_div(student, teacher, reduction="batchmean", log_target=True)

    def update(self, losses: Losses, optimiser: torch.optim.Optimizer) -> None:
        """Take the inner learner's step, with the teacher's term added to its first loss; then update the teachers."""
        rest = {name: loss for name, loss in losses.items() if name != "teacher"}
        if "teacher" in losses:
            first = next(iter(rest))
            rest[first] = rest[first] + losses["teacher"]
        self.inner.update(rest, optimiser)
        self._update_teachers()

    @torch.no_grad()
    def _update_teachers(self) -> None:
        """theta <- a theta + (1 - a) student with a = min(t / (t + 1), decay), at first a plain mean. BatchNorm's
        running statistics are averaged in the same way."""
        share = (1 / (self.steps + 1)).clamp_min(1 - self.strength.decay)
        due = self.random.uniform(2) < self.rates
        for teacher, is_due in zip(self.teachers, due.unbind(), strict=False):
            average, student = _float_tensors(teacher), _float_tensors(self.model)
            change = torch._foreach_mul(torch._foreach_sub(student, average), share * is_due)
            torch._foreach_add_(average, change)
        self.steps += 1

    def end_task(self, samples: Batch) -> None:
        """As the inner learner does."""
        self.inner.end_task(samples)

    @property
    def ends_tasks(self) -> bool:
        """Whether the inner learner defines `end_task`."""
        return self.inner.ends_tasks

    @property
    def tests_model(self) -> bool:
        """Whether the student predicts: if `tested` says so, or if the inner learner does not predict by logits."""
        return self.tested == "student" or type(self.inner).predict is not Learner.predict

    def tested_model(self) -> Model:
        """The student if it is tested, the stable teacher, or a network with the mean of both networks' weights."""
        if self.tests_model:
            return self.model
        network = deepcopy(self.stable)
        network.load_state_dict(self._tested_tensors())
        return network

    def _tested_tensors(self) -> dict[str, Tensor]:
        """Weights and running statistics of the stable teacher, or for mkd the mean of its and the student's."""
        tensors = dict(self.stable.state_dict())
        if self.form == "mkd":
            student = self.model.state_dict()
            tensors |= {k: (v + student[k]) / 2 for k, v in tensors.items() if v.is_floating_point()}
        return tensors

    def predict(self, x: Tensor) -> Tensor:
        """Predict by the teacher or by the mean of both networks' weights, unless the student is tested."""
        if self.tests_model:
            return self.inner.predict(x)
        self.stable.eval()
        logits: Tensor = torch.func.functional_call(self.stable, self._tested_tensors(), (x,))
        self.stable.train()
        return self.inner.scores(logits)

    def grow(self, classes: int) -> None:
        """Extend the inner learner and the teachers to this many classes."""
        super().grow(classes)
        self.inner.grow(classes)
        for teacher in self.teachers:
            teacher.grow_like(self.model)

    def see(self, new: Batch) -> Batch:
        """As the inner learner does."""
        return self.inner.see(new)

    def encode(self, x: Tensor) -> Tensor:
        """As the inner learner does."""
        return self.inner.encode(x)

    @property
    def outputs(self) -> int:
        """The inner learner's."""
        return self.inner.outputs

    @property
    def together(self) -> bool:
        """The inner learner's."""
        return self.inner.together

    def official_passes(self, perturbation: Perturbation) -> OfficialPasses | None:
        """The inner learner's."""
        return self.inner.official_passes(perturbation)


def _without(recipe: Mapping[str, Any], options: Container[str]) -> dict[str, Any]:
    """The recipe's run settings, without the inner learner's options."""
    return {name: value for name, value in recipe.items() if name not in options}


def _float_tensors(model: Model) -> list[Tensor]:
    """Parameters and running statistics."""
    return [tensor for tensor in model.state_dict().values() if tensor.is_floating_point()]
