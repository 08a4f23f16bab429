"""Settings of one run."""

import math
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from moca.errors import MocaError
from moca.settings.base import Settings, names, short
from moca.settings.learners import ER, LEARNERS, Learner
from moca.settings.memory import Memory
from moca.settings.models import Cosine, Head, Model
from moca.settings.perturb import NoPerturbation, Perturb


class Seeds(Settings):
    """One seed for everything, and where wanted another for one purpose."""

    leading: ClassVar[str] = "seed"
    seed: int = Field(0, ge=0, description="for every purpose that has none of its own")
    classes: int | None = Field(None, ge=0, description="class order")
    init: int | None = Field(None, ge=0, description="initial weights")
    data: int | None = Field(None, ge=0, description="order of the samples")
    augment: int | None = Field(None, ge=0, description="augmentation")
    memory: int | None = Field(None, ge=0, description="what is stored and replayed")
    perturb: int | None = Field(None, ge=0, description="perturbation")

    def of(self, purpose: Literal["classes", "init", "data", "augment", "memory", "perturb"]) -> int:
        """The seed of one purpose."""
        own = getattr(self, purpose)
        return self.seed if own is None else int(own)


def _split(value: Any) -> Any:
    """Several values in one string: '35,45'."""
    return tuple(p for p in value.replace(",", " ").split()) if isinstance(value, str) else value


def _class_order(value: Any) -> Any:
    """The name of an order, or numbers."""
    return value if isinstance(value, str) and value[:1].isalpha() else _split(value)


def _tasks(value: Any) -> Any:
    """How many tasks, or the classes of each: 5, or '50,10,10,10,10,10'."""
    return _split(value) if isinstance(value, str) and "," in value else value


Epochs = Annotated[tuple[Annotated[int, Field(ge=0)], ...], BeforeValidator(_split)]
ClassOrder = Annotated[str | tuple[int, ...], BeforeValidator(_class_order)]
AtLeastOne = Annotated[int, Field(ge=1)]
Precision = Literal["auto", "fp32", "tf32", "bf16"]
Tasks = Annotated[AtLeastOne | tuple[AtLeastOne, ...], BeforeValidator(_tasks)]

_LARGEST = 1e30
"""What float32 holds, with room to spare."""

OFFICIAL_PASSES = {
    ("er", "none"): "nbbb",
    ("er", "wap"): "nbb",
    ("er", "vt"): "nbb",
    ("er", "vmf"): "nbb",
    ("er", "doa_old"): "nbbb",
    ("er", "gaussian"): "nbbn",
    ("er", "doa_new"): "nbbn",
    ("er", "add_new"): "nbbn",
    ("er_ace", "wap"): "nnbnb",
    ("derpp", "wap"): "n1nbb",
}
"""The official code's training-mode passes in order, n = new batch, b = replay batch (for derpp: 1 = the draw for the
logits). Every pass moves the running statistics of BatchNorm, so the sequence decides what they are at test time."""
OFFICIAL_FIRST_TASK = {("er", "none"): "nbb"}
"""Those of the first task, where they are not one a batch."""


class Run(Settings):
    """One run: a learner with a perturbation on a stream of tasks."""

    data: str = Field("digits", description="data set: a name (moca data ls) or a folder of images")
    image_size: int | None = Field(None, ge=1, description="pixels a side that the images of a folder are brought to")
    data_dir: str | None = Field(
        None, description="where data sets are stored [default: $MOCA_DATA, or the user's own]"
    )
    learner: Learner = Field(ER(), description="how to learn")
    perturb: Perturb = Field(NoPerturbation(), description="how replayed old-class features are moved")
    memory: Annotated[Memory, short(Memory)] = Field(Memory(), description="samples kept for replay")
    protocol: str | None = Field(
        None, description="how the data set is used: offline, online, ... [default: its first, see moca data ls]"
    )
    tasks: Tasks | None = Field(
        None, description="how many tasks, or the classes of each: 50,10,10 [default: the protocol's, or 5]"
    )
    class_order: ClassOrder | None = Field(
        None, description="natural, random, a named order, or class numbers [default: the protocol's]"
    )
    epochs: int = Field(1, ge=1, le=1_000_000, description="passes over each task; 1 is online learning")
    batch: int = Field(32, ge=1, description="new samples a step")
    replay_batch: int | None = Field(None, ge=1, description="replayed samples a step [default: as batch]")
    lr: float = Field(0.1, gt=0, description="learning rate")
    lr_milestones: Epochs = Field((), description="epochs of a task after which the rate drops")
    lr_factor: float = Field(0.1, gt=0, description="what the rate is multiplied by then")
    momentum: float = Field(0.0, ge=0, lt=1, description="of SGD")
    weight_decay: float = Field(0.0, ge=0, le=_LARGEST, description="of SGD")
    model: Model | None = Field(None, description="encoder [default: the data set's]")
    head: Head = Field(Cosine(), description="classifier")
    passes: Literal["separate", "concatenated"] = Field(
        "separate", description="new and replayed samples: a forward pass and a mean each, or one for both"
    )
    bn_passes: str = Field(
        "clean",
        description="passes that move BatchNorm's statistics: one a batch (clean), the official code's (official), or "
        "your own, such as nbb: the new batch once, the replay batch twice",
    )
    augment: bool = Field(True, description="the data set's augmentation")
    validation: float = Field(0.0, ge=0, lt=1, description="share of the training data to evaluate on instead of test")
    seed: Annotated[Seeds, short(Seeds)] = Field(Seeds(), description="random seed")
    device: str = Field("auto", description="cpu, cuda, or auto")
    precision: Precision = Field(
        "auto",
        description="of the encoder: float32, TensorFloat-32, or bfloat16 autocast; auto is bf16 on a GPU that has it",
    )
    execution: Literal["auto", "eager", "captured", "compiled"] = Field(
        "auto",
        description="how a step runs: eagerly, captured as a CUDA graph, or with the encoder compiled (on a GPU "
        "captured too, and never packed); auto is captured on a GPU and eager elsewhere",
    )
    threads: int | None = Field(
        None, ge=1, le=1024, description="CPU threads [default: 1 for small models, else torch's]"
    )

    @field_validator("learner", mode="before")
    @classmethod
    def _without_perturbation(cls, value: Any) -> Any:
        """Tables call a method er+wap; here that is two settings."""
        learner, plus, perturb = value.partition("+") if isinstance(value, str) else ("", "", "")
        if plus and learner in names(LEARNERS):
            raise MocaError(f"learner = '{value}': give two settings, learner={learner} and perturb={perturb}")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.memory.size == 0 and self.learner.replays:
            raise MocaError(f"'{self.learner.name}' replays from memory, so memory must be at least 1 (it is 0)")
        if self.passes == "concatenated" and self.learner.name in ("derpp", "er_ace"):
            raise MocaError(f"passes=concatenated is for er; '{self.learner.name}' is defined by separate passes")
        if self.bn_passes != "clean":
            self._check_passes()
        changes = sum(epoch < self.epochs for epoch in self.lr_milestones)
        if math.log10(self.lr) + changes * max(0.0, math.log10(self.lr_factor)) > math.log10(_LARGEST):
            raise MocaError(f"the learning rate may be {_LARGEST:.0e} at most; use a smaller lr or lr_factor")
        if self.perturb.name != "none" and not self.learner.replays:
            raise MocaError(
                f"'{self.learner.name}' replays nothing, so '{self.perturb.name}' has nothing to move; "
                "use a replay learner or perturb=none"
            )
        return self

    def _check_passes(self) -> None:
        if self.passes == "concatenated":
            raise MocaError(f"bn_passes={self.bn_passes} means separate passes; use passes=separate")
        letters = "n1b" if self.learner.name == "derpp" else "nb" if self.learner.replays else "n"
        if self.bn_passes == "official":
            if (self.learner.name, self.perturb.name) not in OFFICIAL_PASSES:
                known = ", ".join("+".join(method) for method in OFFICIAL_PASSES)
                raise MocaError(f"bn_passes=official is known for {known} only; use bn_passes=clean")
        elif not self.bn_passes or set(self.bn_passes) - set(letters):
            raise MocaError(
                f"bn_passes = '{self.bn_passes}': use clean, official, or the passes in order, made of "
                f"{', '.join(letters)} (n: new batch, b: replay batch, 1: derpp's first draw)"
            )
