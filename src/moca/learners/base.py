"""The base class of all learners. A learner has at most five verbs; only `losses`, the loss of a step, is required."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from moca.batch import Batch
from moca.errors import MocaError
from moca.inference_batches import MOST, at_once
from moca.memory import Draw, Memory, Reservoir, Store, Uniform
from moca.models.model import Model
from moca.parts import Part, option, path_of
from moca.perturb.base import Perturbation
from moca.perturb.none import Unmoved
from moca.random import Random
from moca.signatures import refuse_misfits
from moca.state import Stateful, longer, placed_tensors

if TYPE_CHECKING:
    from moca.streams import Task

Losses = dict[str, Tensor]
"""The terms of the loss by name; their sum is minimised unless the learner overrides `update`."""


_METHODS = ("prepare", "begin_task", "losses", "update", "end_task", "predict", "scores", "see", "encode", "grow")
"""What a learner may override, and moca calls."""


def among(logits: Tensor, classes: Tensor) -> Tensor:
    """Logits with every class outside the mask `classes` set to the lowest finite value, so a softmax ignores it."""
    return logits.masked_fill(~classes, torch.finfo(logits.dtype).min)


def mean_over(rows: Tensor, each: Tensor) -> Tensor:
    """Mean of the per-sample values `each` over the rows in the mask `rows`; 0 if the mask is empty."""
    return each.masked_fill(~rows, 0).sum() / rows.sum().clamp_min(1)


def divergence(teacher_logits: Tensor, logits: Tensor, classes: Tensor, temperature: float) -> Tensor:
    """Per-sample KL(teacher || student) between the softmaxes over `classes`, both at this temperature."""
    teacher, student = (F.log_softmax(among(z / temperature, classes), 1) for z in (teacher_logits, logits))
    return F.kl_div(student, teacher, reduction="none", log_target=True).sum(1)


class OfficialPasses(NamedTuple):
    """The order of the official code's forward passes in training mode, in the letters of `Learner.batches`.

    Every pass updates BatchNorm's running statistics, so the order decides which statistics are used at test time.
    """

    first_task: str
    later: str
    unperturbed: str
    """In later tasks, for a short batch that is not perturbed."""
    without_replay: str = "n"
    """While the memory is empty."""


class Learner(Part, Stateful):
    """A continual-learning method: the loss of a step, and whatever else differs from plain training.

    Only `losses` is required. Every batch it receives has `features`; the new batch also has `logits`. The other verbs,
    `begin_task`, `update`, `end_task` and `predict`, have defaults. Declare options with `option`, and list in
    `remembers` the attributes that a checkpoint must save.

    Args:
        **options: The learner's own options, and `adjust`, which every learner has: how much of the new classes' lead
            is subtracted from their logits at test time.
    """

    adjust: float | Literal["auto"] = option(
        0.0,
        "logit adjustment at test time: how much is subtracted from the logits of the current task's classes, as a "
        "multiple of their lead, log(1 + classes so far / classes of the task); auto fits it after each task to "
        "samples held out of training, which take a tenth of the memory",
    )

    draws: ClassVar[int] = 1
    """Number of independent replay batches per step."""
    keeps: ClassVar[tuple[str, ...]] = ()
    """Fields of the new batch that the memory stores in addition to image and label, such as `logits`."""
    store: type[Store] | None = Reservoir
    """The policy that decides which new samples enter the memory after each step. None: the learner fills the memory
    itself or, if `draws` is 0 too, has no memory. An option may change it (set it on the instance)."""
    draw: type[Draw] = Uniform
    """The policy that decides which stored samples are replayed. An option may change it, too."""
    replays_images: ClassVar[bool] = True
    """Whether old classes are replayed as samples with images, rather than as prototypes, which are only features."""
    sees_all_tasks: ClassVar[bool] = False
    """Whether all tasks are trained at once."""
    has_logits: ClassVar[bool] = True
    """Whether it predicts by logits, in which new classes may have a lead, rather than by distances."""
    expected_adjust: ClassVar[float] = 1.0
    """The `adjust` that its losses call for: 0 if new classes do not compete with old ones in the loss."""
    static: ClassVar[bool] = True
    """Whether a step has fixed tensor shapes and no device-to-host synchronisation; if not, it always runs eagerly."""
    refuses: ClassVar[str] = ""
    """Why it supports no perturbation; empty if it does."""
    recipes: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Run settings that differ from the protocol's, and options that differ from their defaults. Keys are a protocol
    (`offline`), data set and protocol (`cifar100/offline`), or these and the memory size (`cifar100/offline/500`)."""

    remembers: ClassVar[tuple[str, ...]] = ("came", "current", "number", "first_task", "perturbation", "random")

    model: Model
    """The network, in two halves: `encode` and `classify`."""
    perturbation: Perturbation
    """The perturbation, which `perturbed` applies."""
    memory: Memory | None
    """The stored samples; None if the learner has no memory."""
    view: Callable[[Tensor], Tensor]
    """Converts raw images to the encoder's input, without augmentation."""
    augment: Callable[[Tensor], Tensor]
    """Converts raw images to the encoder's input, augmented as in training."""
    random: Random
    """The learner's own random numbers."""
    lr: Tensor
    """The current learning rate."""
    came: Tensor
    """For each class, the task in which it first appeared, counted from 0; -1 if it has not appeared yet."""
    current: Tensor
    """Mask of the current task's classes."""
    number: Tensor
    """The current task, counted from 0; -1 before the first. On the device, so that a recorded step serves all later
    tasks."""
    first_task: bool
    """Whether the current task is the first one."""

    adjusts_by: float
    """The multiple of the lead that is subtracted from its predictions."""

    @property
    def holds_out(self) -> bool:
        """Whether samples are held out of training, to fit the logit adjustment to them."""
        return self.adjust == "auto"

    @property
    def tests_model(self) -> bool:
        """Whether `model`, with its BatchNorm statistics, is the network that predicts; false if a teacher predicts."""
        return True

    def tested_model(self) -> Model:
        """The network that predicts: `model`, or a teacher."""
        return self.model

    def check(self) -> None:
        """Refuse `adjust` for learners that predict by distances, and `adjust=auto` without a memory."""
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
        """Set what the learner works on. With `skips_short`, a step is not perturbed if the new batch and the replay
        batch differ in size."""
        refuse_misfits(self, Learner, _METHODS, several=self.draws)
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
        """Create the learner's own state; called once, at the end of `attach`."""

    def begin(self, task: Task) -> None:
        """Call `begin_task`, and check that a user-defined one has called the base class's."""
        before = int(self.number)
        self.begin_task(task)
        if int(self.number) == before:
            raise MocaError(
                f"begin_task of '{type(self).__name__}' must call super().begin_task(task) first, which counts tasks "
                "and classes"
            )

    def begin_task(self, task: Task) -> None:
        """Start a new task, whose classes may include old ones. Call `super().begin_task(task)` first: it counts tasks
        and classes, from which `old`, `first_task` and others follow."""
        self.first_task = not self.seen.any().item()
        self.number += 1
        self.current.zero_()
        self.current[list(task.classes)] = True
        self.came.copy_(torch.where(self.current & ~self.seen, self.number, self.came))

    def losses(self, new: Batch, *replays: Batch) -> Losses:
        """Return the terms of the loss by name, each a scalar tensor. `replays` are `draws` batches, or none while the
        memory is empty."""
        name = type(self).__name__
        if type(self).losses is not Learner.losses:
            raise MocaError(f"losses of '{name}' calls super().losses, but a plain moca.Learner has none to give")
        raise MocaError(f"'{name}' has no method losses(self, new, *replays), which a learner needs")

    def update(self, losses: Losses, optimiser: torch.optim.Optimizer) -> None:
        """Take one optimiser step on the sum of the losses."""
        optimiser.zero_grad()
        try:
            torch.stack(list(losses.values())).sum().backward()
        except RuntimeError as error:
            if "backward through the graph a second time" in str(error) and (kept := self._kept_graphs()):
                raise MocaError(
                    f"'{type(self).__name__}' keeps {kept} with its graph from the step before; keep .detach() of it"
                ) from error
            raise
        optimiser.step()

    def _kept_graphs(self) -> str:
        """The attributes that hold a tensor with its graph."""
        graphs = {path[0] for path, tensor in placed_tensors(vars(self)) if tensor.grad_fn is not None}
        return ", ".join(f"'{name}'" for name in sorted(graphs))

    def end_task(self, samples: Batch) -> None:
        """Called after a task has been trained, with the raw images and labels of its training set; the model is in
        evaluation mode."""

    def predict(self, x: Tensor) -> Tensor:
        """Score every class for a batch of encoder inputs; after adjustment, the highest score is the prediction."""
        return self.scores(self.model(x))

    def scores(self, logits: Tensor) -> Tensor:
        """Turn the logits of the model, or of a teacher with the same architecture, into one score per class."""
        return logits

    def adjusted(self, scores: Tensor) -> Tensor:
        """Subtract `adjusts_by` times the lead from predicted scores."""
        return scores - self.adjusts_by * self.lead if self.adjusts_by else scores

    def grow(self, classes: int) -> None:
        """Extend the state to this many classes."""
        self.came, self.current = longer(self.came, classes, -1), longer(self.current, classes)
        self.perturbation.grow(classes)

    def see(self, new: Batch) -> Batch:
        """Transform the new batch before it is encoded, for instance by adding rotated copies."""
        return new

    def encode(self, x: Tensor) -> Tensor:
        """Compute the features of all samples of a step; the new ones come first."""
        return self.model.encode(x)

    @torch.no_grad()
    def asked(self, network: Callable[[Tensor], Tensor], images: Tensor) -> Tensor:
        """Run `network` on raw images (on any device) without augmentation, in batches, and return all outputs."""
        parts = images.split(at_once(images, MOST["cpu"]))  # so many on a GPU, too
        return torch.cat([network(self.view(part.to(self.came.device))) for part in parts])

    def portions(self, samples: Batch) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield raw images and their labels in batches, on the learner's device."""
        size = at_once(samples.image, MOST["cpu"])
        for images, y in zip(samples.image.split(size), samples.y.split(size), strict=True):
            yield images.to(self.came.device), y.to(self.came.device)

    @property
    def outputs(self) -> int:
        """Number of classifier outputs per class."""
        return 1

    @property
    def ends_tasks(self) -> bool:
        """Whether it defines `end_task`, and so must be given each task's samples."""
        return type(self).end_task is not Learner.end_task

    @property
    def has_memory(self) -> bool:
        """Whether the learner has a memory."""
        return self.draws > 0 or self.store is not None

    @property
    def seen(self) -> Tensor:
        """Mask of the classes of all tasks so far, including the current one."""
        return self.came >= 0

    @property
    def old(self) -> Tensor:
        """Mask of the classes that first appeared in an earlier task; a class that returns now is old, too."""
        return (self.came >= 0) & (self.came < self.number)

    @property
    def lead(self) -> Tensor:
        """How much a softmax favours each class merely because it is trained on more samples.

        For a current class this is the log of how many times as often it is trained on as another class, assuming that
        new and replayed samples have equal weight and that classes are equally frequent in each. It is 0 for the other
        classes, and for all classes if the current task contains every class so far.
        """
        times = 1 + self.seen.sum() / self.current.sum()
        return torch.where(self.current & (self.seen & ~self.current).any(), times.log(), 0.0)

    @property
    def together(self) -> bool:
        """Whether BatchNorm normalises new and replayed samples as one batch."""
        return False

    @property
    def batches(self) -> str:
        """One letter per batch of a step, in order: n for the new batch, 1, 2, ... for the first replays, b for the
        last."""
        return "n" + "".join(map(str, range(1, self.draws))) + "b" * (self.draws > 0)

    def official_passes(self, perturbation: Perturbation) -> OfficialPasses | None:
        """The forward passes of the official code with this perturbation; None if unknown."""
        return None

    def why_not(self, perturbation: Perturbation) -> str:
        """Why the learner does not support this perturbation; empty if it does."""
        if not perturbation.moves:
            return ""
        if perturbation.needs_images and not self.replays_images and not self.refuses:
            return f"{perturbation.needs_images}, and prototypes have no images"
        return self.refuses

    def is_old(self, y: Tensor) -> Tensor:
        """True for samples whose class first appeared in an earlier task."""
        return self.old[y]

    def perturbs(self, new: Batch, replay: Batch) -> bool:
        """Whether this step is perturbed: never in the first task, where no class is old, nor if it is skipped."""
        return not self.first_task and not (self.skips_short and len(new.y) != len(replay.y))

    def perturbed(self, replay: Batch, new: Batch) -> Tensor:
        """The seam: the features of the replayed samples, with those of old classes perturbed."""
        replay.moved = self.perturbation(replay, new) if self.perturbs(new, replay) else replay.features
        return replay.moved

    def loss_of_old(self, replay: Batch, new: Batch) -> Tensor:
        """Mean CE over the replayed samples of old classes, perturbed; 0 if there are none."""
        assert replay.old is not None
        logits = self.model.classify(self.perturbed(replay, new))
        return mean_over(replay.old, F.cross_entropy(logits, replay.y, reduction="none"))


class Distilling(Learner):
    """A learner that distils from `teacher`, a frozen copy of the model as it was before the current task."""

    remembers: ClassVar[tuple[str, ...]] = ("teacher",)

    def prepare(self) -> None:
        """Create the teacher as a copy of the model."""
        self.teacher = deepcopy(self.model).requires_grad_(False).eval()

    def begin_task(self, task: Task) -> None:
        """Copy the model's weights to the teacher."""
        super().begin_task(task)
        self.teacher.load_state_dict(self.model.state_dict())

    def grow(self, classes: int) -> None:
        """Extend the teacher to this many classes as well."""
        super().grow(classes)
        self.teacher.grow_like(self.model)


class Filling(Learner):
    """A learner that fills the memory itself at the end of each task, with equally many samples of every class."""

    store: type[Store] | None = None
    remembers: ClassVar[tuple[str, ...]] = ("offered",)

    def prepare(self) -> None:
        """Create `offered`, the number of samples seen of each class."""
        super().prepare()
        self._check_memory_size(len(self.came))
        self.offered = torch.zeros_like(self.came)

    def parts(self, y: Tensor) -> tuple[int, list[int]]:
        """Count a task's labels, and return how many samples each class may store and, for each class, how many of them
        should be of this task, so that every sample ever seen of a class is equally likely to be stored."""
        assert self.memory is not None
        classes = int(self.seen.sum())
        self._check_memory_size(classes)
        room, arriving = self.memory.size // classes, y.bincount(minlength=len(self.came)).to(self.offered.device)
        self.offered += arriving
        return room, (room * arriving.double() / self.offered.clamp_min(1)).round().long().tolist()

    def _check_memory_size(self, classes: int) -> None:
        if self.memory is not None and self.memory.size < classes:
            raise MocaError(
                f"{path_of(type(self))} needs a memory of at least one sample a class, here {classes} (it is "
                f"{self.memory.size})"
            )

    def grow(self, classes: int) -> None:
        """Extend the counts to this many classes; none of the new ones has samples yet."""
        super().grow(classes)
        self.offered = longer(self.offered, classes)
