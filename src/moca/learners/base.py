"""What every learner is: at most five verbs, of which one, the loss of a step, is required."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from moca.batch import Batch
from moca.errors import MocaError
from moca.inference_batches import at_once
from moca.memory import Draw, Memory, Reservoir, Store, Uniform
from moca.models.model import Model
from moca.parts import Part, option, path_of
from moca.perturb.base import Perturbation
from moca.perturb.none import Unmoved
from moca.random import Random
from moca.state import Stateful, longer

if TYPE_CHECKING:
    from moca.streams import Task

Losses = dict[str, Tensor]
"""The terms of the loss by name; unless a learner updates in its own way, their sum is minimised."""


_AT_ONCE = 500
"""Images that a network is asked about together."""


def among(logits: Tensor, classes: Tensor) -> Tensor:
    """The logits with all but these classes out of the competition."""
    return logits.masked_fill(~classes, torch.finfo(logits.dtype).min)


def mean_over(rows: Tensor, each: Tensor) -> Tensor:
    """The mean of a number a sample over these samples only; 0 where there are none."""
    return each.masked_fill(~rows, 0).sum() / rows.sum().clamp_min(1)


def divergence(told: Tensor, logits: Tensor, classes: Tensor, temperature: float) -> Tensor:
    """Of each sample, KL from the softmax of what was told to that of the logits, both among these classes."""
    wanted, given = (F.log_softmax(among(z / temperature, classes), 1) for z in (told, logits))
    return F.kl_div(given, wanted, reduction="none", log_target=True).sum(1)


class OfficialPasses(NamedTuple):
    """The official code's training-mode passes in order, by the letters of `Learner.batches`.

    Every pass moves the running statistics of BatchNorm, so the sequence decides what they are at test time.
    """

    first_task: str
    later: str
    unperturbed: str
    """In later tasks, where a short batch is not perturbed."""
    without_replay: str = "n"
    """While the memory is empty."""


class Learner(Part, Stateful):
    """A method of continual learning: what the loss of a step is, and where it departs from plain training.

    `losses` is all that one must have; all batches come with their features, the new one with its logits too. The other
    verbs have defaults: `begin_task`, `update`, `end_task`, `predict`. Options are declared with `option`, and what
    must survive a checkpoint is named in `remembers`.

    Args:
        **options: Those of the learner, and `adjust`, which all have: how much of the lead that new classes have is
            taken from their logits at the test.
    """

    adjust: float | Literal["auto"] = option(
        0.0,
        "logit adjustment at the test: what the classes of the current task lose, as a multiple of their lead, "
        "log(1 + classes so far / classes of the task); auto fits it after each task to samples held out of training, "
        "for which a tenth of the memory is kept",
    )

    draws: ClassVar[int] = 1
    """Independent replay batches a step."""
    keeps: ClassVar[tuple[str, ...]] = ()
    """What the memory keeps of each sample beside image and label: fields of the new batch, such as its logits."""
    store: type[Store] | None = Reservoir
    """Which of the new samples the memory takes in after each step; None where the learner fills it itself or, if it
    draws nothing either, has none. It may depend on an option, and be set with it."""
    draw: type[Draw] = Uniform
    """Which stored samples are replayed; it may depend on an option, too."""
    replays_images: ClassVar[bool] = True
    """Whether what stands for old classes are samples with their images, or prototypes that are features only."""
    sees_all_tasks: ClassVar[bool] = False
    """Whether all tasks come at once."""
    has_logits: ClassVar[bool] = True
    """Whether the scores by which it predicts are logits, of which those of new classes may lead; not distances."""
    expected_adjust: ClassVar[float] = 1.0
    """The `adjust` that its losses ask for: none where new classes do not compete with old ones."""
    static: ClassVar[bool] = True
    """Whether a step is a function of tensors with fixed shapes that never asks the device; others run eagerly."""
    refuses: ClassVar[str] = ""
    """Why it takes no perturbation, if so."""
    recipes: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Settings of a run with it, where they differ from those of the protocol, and its own options, where they differ
    from their defaults, by the name of the protocol (`offline`), of data set and protocol (`cifar100/offline`), or of
    these and the size of the memory (`cifar100/offline/500`)."""

    remembers: ClassVar[tuple[str, ...]] = ("came", "current", "number", "first_task", "perturbation", "random")

    model: Model
    """The network, in two halves: `encode` and `classify`."""
    perturbation: Perturbation
    """What moves features; `perturbed` asks it."""
    memory: Memory | None
    """The samples that are kept; None where it keeps none."""
    view: Callable[[Tensor], Tensor]
    """Raw images as the encoder sees them when nothing is augmented."""
    augment: Callable[[Tensor], Tensor]
    """Raw images as the encoder sees them in training."""
    random: Random
    """Random numbers of the learner's own."""
    lr: Tensor
    """The current learning rate."""
    came: Tensor
    """The task in which each class came first, counted from 0; -1 for those that are yet to come."""
    current: Tensor
    """Which classes the current task has."""
    number: Tensor
    """The current task, counted from 0; -1 before the first. On the device, so that steps of later tasks are alike."""
    first_task: bool
    """Whether no task came before."""

    adjusts_by: float
    """The multiple of the lead that its predictions lose."""

    @property
    def holds_out(self) -> bool:
        """Whether samples are held out of training, to fit to them what its predictions lose."""
        return self.adjust == "auto"

    @property
    def tests_model(self) -> bool:
        """Whether the network that predicts is the model, with its BatchNorm statistics; of a teacher it may be not."""
        return True

    def check(self) -> None:
        """Refuse to take from scores in which no class leads, or to fit with nothing to fit to."""
        name = type(self).__name__
        if self.adjust and not self.has_logits:
            raise MocaError(f"adjust needs logits, but {name} classifies by distances; leave it out")
        if self.holds_out and not self.has_memory:
            raise MocaError(f"adjust=auto needs a memory, and {name} has none; give a number")

    def attach(
        self,
        model: Model,
        classes: int,
        *,
        perturbation: Perturbation | None = None,
        memory: Memory | None = None,
        view: Callable[[Tensor], Tensor] | None = None,
        augment: Callable[[Tensor], Tensor] | None = None,
        lr: Tensor | None = None,
        random: Random | None = None,
        skips_short: bool = False,
    ) -> Self:
        """Take what the learner works on; `skips_short` leaves batches unperturbed that are not as large as the
        replay."""
        self.model, self.memory, self.view = model, memory, view or Tensor.float
        self.perturbation, self.skips_short = perturbation or Unmoved().attach(), skips_short
        self.adjusts_by = self.expected_adjust if self.adjust == "auto" else self.adjust
        device = next(model.parameters()).device
        self.lr = torch.tensor(0.1, device=device) if lr is None else lr
        self.augment, self.random = augment or self.view, random or Random(0, "learner", device)
        self.came = torch.full((classes,), -1, device=device)
        self.current = torch.zeros(classes, dtype=torch.bool, device=device)
        self.number, self.first_task = torch.tensor(-1, device=device), True
        self.prepare()
        return self

    def prepare(self) -> None:
        """Make what else the learner keeps; called once, when all it works on is there."""

    def begin(self, task: Task) -> None:
        """A new task begins: `begin_task`, and a look that one of the user's own has told the base of it."""
        before = int(self.number)
        self.begin_task(task)
        if int(self.number) == before:
            raise MocaError(
                f"begin_task of '{type(self).__name__}' must call super().begin_task(task) first, which counts tasks "
                "and classes"
            )

    def begin_task(self, task: Task) -> None:
        """A new task begins; its classes may come again. Call `super().begin_task(task)` first: it counts tasks and
        classes, which `old`, `first_task` and the like follow from."""
        self.first_task = not self.seen.any().item()
        self.number += 1
        self.current.zero_()
        self.current[list(task.classes)] = True
        self.came.copy_(torch.where(self.current & ~self.seen, self.number, self.came))

    def losses(self, new: Batch, *replays: Batch) -> Losses:
        """The terms of the loss by name, each a tensor of one number. `replays` holds `draws` batches, none while the
        memory is empty."""
        name = type(self).__name__
        if type(self).losses is not Learner.losses:
            raise MocaError(f"losses of '{name}' calls super().losses, but a plain moca.Learner has none to give")
        raise MocaError(f"'{name}' has no method losses(self, new, *replays), which a learner needs")

    def update(self, losses: Losses, optimiser: torch.optim.Optimizer) -> None:
        """One step of the optimiser down the sum of the losses."""
        optimiser.zero_grad()
        torch.stack(list(losses.values())).sum().backward()
        optimiser.step()

    def end_task(self, samples: Batch) -> None:
        """A task has been learnt; `samples` are the raw images and labels of its training set, the model is in
        evaluation mode."""

    def predict(self, x: Tensor) -> Tensor:
        """A score of every class for images as the encoder sees them; the highest, once adjusted, is the prediction."""
        return self.scores(self.model(x))

    def scores(self, logits: Tensor) -> Tensor:
        """What logits of the network, or of a teacher of its kind, say for each class."""
        return logits

    def adjusted(self, scores: Tensor) -> Tensor:
        """What was predicted, as much of the current classes' lead taken from their scores as was asked for."""
        return scores - self.adjusts_by * self.lead if self.adjusts_by else scores

    def grow(self, classes: int) -> None:
        """Make room for more classes."""
        self.came, self.current = longer(self.came, classes, -1), longer(self.current, classes)
        self.perturbation.grow(classes)

    def see(self, new: Batch) -> Batch:
        """The new samples as they are to go through the encoder: rotated copies beside them, for instance."""
        return new

    def encode(self, x: Tensor) -> Tensor:
        """Features of all samples of a step, the new ones first."""
        return self.model.encode(x)

    @torch.no_grad()
    def asked(self, network: Callable[[Tensor], Tensor], images: Tensor) -> Tensor:
        """What a network says of raw images, not augmented; some at a time, wherever they are."""
        parts = images.split(at_once(images, _AT_ONCE))
        return torch.cat([network(self.view(part.to(self.came.device))) for part in parts])

    def portions(self, samples: Batch) -> Iterator[tuple[Tensor, Tensor]]:
        """Raw images and their labels, some at a time, on the device."""
        few = at_once(samples.image, _AT_ONCE)
        for images, y in zip(samples.image.split(few), samples.y.split(few), strict=True):
            yield images.to(self.came.device), y.to(self.came.device)

    @property
    def outputs(self) -> int:
        """Outputs of the classifier for each class."""
        return 1

    @property
    def ends_tasks(self) -> bool:
        """Whether it does anything at the end of a task, for which it is handed the task's samples."""
        return type(self).end_task is not Learner.end_task

    @property
    def has_memory(self) -> bool:
        """Whether samples are kept at all."""
        return self.draws > 0 or self.store is not None

    @property
    def seen(self) -> Tensor:
        """Which classes came in the tasks so far, the current one included."""
        return self.came >= 0

    @property
    def old(self) -> Tensor:
        """Which classes came in earlier tasks; one that comes again is old, too."""
        return (self.came >= 0) & (self.came < self.number)

    @property
    def lead(self) -> Tensor:
        """By how much a softmax prefers each class only because more samples are its own: the log of how many times as
        often as another class a current one is trained on, where the new samples of a step count as much as the
        replayed ones and classes come equally often in either. Nothing where the task has all classes so far."""
        times = 1 + self.seen.sum() / self.current.sum()
        return torch.where(self.current & (self.seen & ~self.current).any(), times.log(), 0.0)

    @property
    def together(self) -> bool:
        """Whether BatchNorm takes new and replayed samples for one batch."""
        return False

    @property
    def batches(self) -> str:
        """A letter for each batch of a step, in order: n, the new one; b, the last replay; 1, 2, ..., those before."""
        return "n" + "".join(map(str, range(1, self.draws))) + "b" * (self.draws > 0)

    def official_passes(self, perturbation: Perturbation) -> OfficialPasses | None:
        """The passes of the official code with this perturbation, where they are known."""
        return None

    def why_not(self, perturbation: Perturbation) -> str:
        """Why it does not take the perturbation; nothing where it does."""
        if not perturbation.moves:
            return ""
        if perturbation.needs_images and not self.replays_images and not self.refuses:
            return f"{perturbation.needs_images}, and prototypes have no images"
        return self.refuses

    def is_old(self, y: Tensor) -> Tensor:
        """True for samples of classes that came in earlier tasks."""
        return self.old[y]

    def perturbs(self, new: Batch, replay: Batch) -> bool:
        """Whether this step is perturbed: not in the first task, where no class is old, nor where that is skipped."""
        return not self.first_task and not (self.skips_short and len(new.y) != len(replay.y))

    def perturbed(self, replay: Batch, new: Batch) -> Tensor:
        """The seam: features of the replayed samples, those of old classes moved."""
        replay.moved = self.perturbation(replay, new) if self.perturbs(new, replay) else replay.features
        return replay.moved

    def loss_of_old(self, replay: Batch, new: Batch) -> Tensor:
        """CE over the old ones among the replayed samples, moved; 0 where none is old."""
        assert replay.old is not None
        logits = self.model.classify(self.perturbed(replay, new))
        return mean_over(replay.old, F.cross_entropy(logits, replay.y, reduction="none"))


class Distilling(Learner):
    """A learner that asks the network of before the current task, `teacher`."""

    remembers: ClassVar[tuple[str, ...]] = ("teacher",)

    def prepare(self) -> None:
        """A copy of the network."""
        self.teacher = deepcopy(self.model).requires_grad_(False).eval()

    def begin_task(self, task: Task) -> None:
        """The network so far becomes the teacher."""
        super().begin_task(task)
        self.teacher.load_state_dict(self.model.state_dict())

    def grow(self, classes: int) -> None:
        """Room for more classes in the teacher."""
        super().grow(classes)
        self.teacher.grow_like(self.model)


class Filling(Learner):
    """A learner that fills the memory itself at the end of a task: as many samples of each class, whenever it came."""

    store: type[Store] | None = None
    remembers: ClassVar[tuple[str, ...]] = ("offered",)

    def prepare(self) -> None:
        """How many samples of each class have come: none yet."""
        super().prepare()
        self._refuse_too_few(len(self.came))
        self.offered = torch.zeros_like(self.came)

    def parts(self, y: Tensor) -> tuple[int, list[int]]:
        """A task has come with these labels: how many samples each class may keep, and of each class how many of these
        are to be new ones, so that all that ever came of it have the same part."""
        assert self.memory is not None
        classes = int(self.seen.sum())
        self._refuse_too_few(classes)
        room, coming = self.memory.size // classes, y.bincount(minlength=len(self.came)).to(self.offered.device)
        self.offered += coming
        return room, (room * coming.double() / self.offered.clamp_min(1)).round().long().tolist()

    def _refuse_too_few(self, classes: int) -> None:
        if self.memory is not None and self.memory.size < classes:
            raise MocaError(
                f"{path_of(type(self))} needs a memory of at least one sample a class, here {classes} (it is "
                f"{self.memory.size})"
            )

    def grow(self, classes: int) -> None:
        """Of more classes, none came yet."""
        super().grow(classes)
        self.offered = longer(self.offered, classes)
