"""Settings of one run."""

import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, SerializeAsAny, field_validator, model_validator

from moca.errors import MocaError, Unfit, nearest
from moca.parts import ENCODERS, LEARNERS, PERTURBATIONS, Kind, own_source
from moca.settings.arrival import Arrival
from moca.settings.base import Settings, several, short
from moca.settings.choice import Absent, Choice, Own, chosen
from moca.settings.heads import Cosine, Head
from moca.settings.memory import Memory
from moca.settings.optimisers import LARGEST, SGD, Constant, Optimiser, Schedule


class Seeds(Settings):
    """One seed for everything, and optionally separate seeds for some purposes."""

    leading: ClassVar[str] = "seed"
    seed: int = Field(0, ge=0, description="for every purpose without a seed of its own")
    classes: int | None = Field(None, ge=0, description="class order, and how samples arrive")
    init: int | None = Field(None, ge=0, description="initial weights")
    data: int | None = Field(None, ge=0, description="order of the samples")
    augment: int | None = Field(None, ge=0, description="augmentation")
    memory: int | None = Field(None, ge=0, description="what is stored and replayed")
    perturb: int | None = Field(None, ge=0, description="perturbation, and what else a learner draws")

    def of(self, purpose: Literal["classes", "init", "data", "augment", "memory", "perturb"]) -> int:
        """The seed of one purpose."""
        own = getattr(self, purpose)
        return self.seed if own is None else int(own)


def _class_order(value: Any) -> Any:
    """The name of an order, or class numbers."""
    return several(value) if isinstance(value, str) and not value[:1].isalpha() else value


def _tasks(value: Any) -> Any:
    """The number of tasks, or the number of classes of each: 5, or '50,10,10,10,10,10'."""
    return several(value) if isinstance(value, str) and "," in value else value


PARTS = {"learner": LEARNERS, "perturb": PERTURBATIONS, "model": ENCODERS, "frozen": ENCODERS}
"""The settings of a run that choose a part, and its kind."""
CHEAP = ("angles", "gradients", "perturbation", "batch_norm", "weights")
"""The recordings that do not slow down training."""
RECORDINGS = (*CHEAP, "lead", "rules")
"""All recordings."""


def _recorded(value: Any) -> Any:
    """The names of recordings, each once and in a fixed order; `all` stands for the cheap ones."""
    parts = [value] if isinstance(value, str) else value
    if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
        return value
    named = [name for part in parts for name in several(part)]
    for name in named:
        if name not in ("all", *RECORDINGS):
            raise MocaError(f"record = '{name}': {nearest(name, ('all', *RECORDINGS))}")
    return tuple(name for name in RECORDINGS if name in named or ("all" in named and name in CHEAP))


ClassOrder = Annotated[str | tuple[int, ...], BeforeValidator(_class_order)]
AtLeastOne = Annotated[int, Field(ge=1)]
Precision = Literal["auto", "fp32", "tf32", "bf16"]
Recorded = Annotated[tuple[str, ...], BeforeValidator(_recorded)]
Tasks = Annotated[AtLeastOne | tuple[AtLeastOne, ...], BeforeValidator(_tasks)]


def _data(value: Any) -> Any:
    """A name or a path; or user-defined data."""
    if isinstance(value, Path):
        value = os.fspath(value)
    if value is None or isinstance(value, str):
        if not value or not value.strip():
            raise MocaError("data is empty; give the name of a data set (moca data ls) or a folder of images")
        return value
    if isinstance(value, dict) and value.get("own") is True:
        return Own(name=str(value.get("name")))
    return value if isinstance(value, Own) else Own.of(value, str(getattr(value, "name", type(value).__name__)))


def _device(value: Any) -> Any:
    """A device name, also from a `torch.device`, without importing torch."""
    return str(value) if type(value).__name__ == "device" else value


Data = Annotated[str | Own, BeforeValidator(_data)]
Device = Annotated[str, BeforeValidator(_device)]
Learner = Annotated[SerializeAsAny[Choice], chosen(LEARNERS)]
Perturb = Annotated[SerializeAsAny[Choice], chosen(PERTURBATIONS)]
Model = Annotated[SerializeAsAny[Choice], chosen(ENCODERS)]


class Run(Settings):
    """One run: a learner with a perturbation on a stream of tasks."""

    data: Data = Field("digits", description="data set: a name (moca data ls) or a folder of images")
    image_size: int | None = Field(None, ge=1, description="size in pixels that images of a folder are scaled to")
    data_dir: str | None = Field(
        None, description="where data sets are stored [default: $MOCA_DATA, or the user's data folder]"
    )
    learner: Learner = Field(
        "er",
        validate_default=True,
        description="the method: er, derpp, er_ace, ... (moca ls) [in proxy protocols: pass]",
    )
    perturb: Perturb = Field(
        "none",
        validate_default=True,
        description="how replayed old-class features are moved: gaussian, vt, wap, ... (moca ls)",
    )
    memory: Annotated[Memory, short(Memory)] = Field(
        Memory(), description="how many samples to keep for replay, or how many bytes they may take: 50MB"
    )
    protocol: str | None = Field(
        None, description="how the data set is used: offline, online, ... [default: its first, see moca ls cifar100]"
    )
    tasks: Tasks | None = Field(None, description="number of tasks, or of classes in each: 50,10,10")
    class_order: ClassOrder | None = Field(None, description="natural, random, a named order, or class numbers")
    arrival: Annotated[Arrival, short(Arrival)] = Field(
        Arrival(),
        description="how samples arrive: by classes or domains, optionally with blurred boundaries, returning classes "
        "or imbalance: classes:blur=0.2,returns=0.1,imbalance=0.1",
    )
    classes: Literal["known", "unknown"] = Field(
        "known", description="whether the number of classes is known, or the classifier grows as new ones arrive"
    )
    epochs: int = Field(1, ge=1, le=1_000_000, description="passes over each task; 1 is online learning")
    batch: int = Field(32, ge=1, description="new samples per step")
    replay_batch: int | None = Field(None, ge=1, description="replayed samples per step [default: as batch]")
    lr: float = Field(0.1, gt=0, le=LARGEST, description="learning rate")
    optimiser: Optimiser = Field(SGD(), description="sgd, adam or adamw")
    schedule: Schedule = Field(
        Constant(), description="how the learning rate changes over epochs: constant, steps or cosine"
    )
    model: Model | None = Field(None, description="encoder: resnet18, convnet, mlp, ... (moca ls)")
    frozen: Model | None = Field(
        None,
        description="encoder that is not trained: images pass it once, and the model learns on its features",
    )
    head: Head = Field(Cosine(), description="classifier: cosine, linear or simplex")
    bn_passes: str = Field(
        "replay",
        description="forward passes that update BatchNorm's statistics: of replayed batches once there are old classes "
        "(replay), one per batch (clean), the official code's (official), or your own sequence, such as nbb: the new "
        "batch once, the replay batch twice",
    )
    short_batch: Literal["perturb", "skip"] = Field(
        "perturb",
        description="if the last batch of an epoch is smaller than the replay batch: perturb that step too, or skip "
        "the perturbation, as the official code does",
    )
    offer: Literal["every_epoch", "once"] = Field(
        "every_epoch",
        description="when new samples are offered to the memory: in every epoch, as in the official code, so that a "
        "sample may be stored twice; or once",
    )
    augment: bool = Field(True, description="the data set's augmentation")
    evaluate_every: int | None = Field(
        None, ge=1, description="also evaluate every so many steps, for the accuracy over the stream (anytime accuracy)"
    )
    record: Recorded = Field(
        (),
        description="what to record for analyses (moca analyse), any of: angles, gradients, perturbation, batch_norm, "
        "weights (which moca run saves anyway), or all of these; and lead and rules, which also test the run with "
        "increasing logit adjustments and under every rule of bn_passes",
    )
    validation: float = Field(0.0, ge=0, lt=1, description="share of the training data to evaluate on instead of test")
    seed: Annotated[Seeds, short(Seeds)] = Field(Seeds(), description="random seed")
    device: Device = Field("auto", description="cpu, cuda, or auto")
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

    @property
    def own_objects(self) -> list[str]:
        """Names of the settings that are Python objects, which settings.json cannot hold."""
        return [name for name, value in self if isinstance(value, Own | Choice) and value.own]

    @property
    def in_python_only(self) -> bool:
        """Whether some setting is a Python object, so that no command can start the same run."""
        return bool(self.own_objects)

    @property
    def in_this_process_only(self) -> bool:
        """Whether some setting is unknown to other processes, such as a part that a script registered."""
        return self.in_python_only or any(choice.name in kind.registered for kind, choice in self._parts)

    @property
    def with_own_code(self) -> bool:
        """Whether the run uses user-defined parts; assumed of pretrained weights that do not say of which encoder."""
        return any(choice.own or _maker(choice) not in kind.built_in for kind, choice in self._parts)

    def with_options_of(self, saved: Mapping[str, Any]) -> Self:
        """The settings in which classes that exist only in Python, passed again, have the options saved with them."""
        again = {}
        for name, part in ((name, saved.get(name)) for name in PARTS):
            now = getattr(self, name)
            if isinstance(part, dict) and isinstance(now, Choice) and now.own and now.name == part["name"]:
                again[name] = now.with_known(part)
        return self.model_copy(update=again)

    @property
    def own_code(self) -> str:
        """A fingerprint of the user's code behind its parts; empty if there is none, or its source is not at hand."""
        code = "".join(own_source(one.part) for _, one in self._parts if not isinstance(one, Absent))
        return sha256(code.encode()).hexdigest()[:12] if code else ""

    @property
    def _parts(self) -> list[tuple[Kind, Choice]]:
        return [(kind, made) for name, kind in PARTS.items() if (made := getattr(self, name)) is not None]

    @property
    def uses_memory(self) -> bool:
        """Whether the learner has a memory; assumed if it is a Python object that is missing here."""
        return isinstance(self.learner, Absent) or self.learner.make().has_memory

    @property
    def data_name(self) -> str:
        """The name of the data set; of a path, its last component."""
        return self.data.name if isinstance(self.data, Own) else Path(self.data).name

    @field_validator("learner", mode="before")
    @classmethod
    def _without_perturbation(cls, value: Any) -> Any:
        """Explain that er+wap, as tables call a method, is two settings here."""
        learner, plus, perturb = value.partition("+") if isinstance(value, str) else ("", "", "")
        if plus and perturb[:1].isalpha() and learner.partition(":")[0] in LEARNERS.built_in:
            raise MocaError(
                f"learner = '{value}': give two settings, learner={learner} and perturb={perturb}; moca.compare also "
                f"takes methods={value}"
            )
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if isinstance(self.learner, Absent) or isinstance(self.perturb, Absent):
            return self
        name, learner, perturb = self.learner.name, self.learner.make(), self.perturb.make()
        if self.classes == "unknown" and self.memory.per == "class" and learner.has_memory:
            raise MocaError("a memory per class needs a known number of classes; give the total: memory=200")
        if self.classes == "unknown" and self.head.name == "simplex":
            raise MocaError("a simplex head cannot grow, so its classes must be known; use head=linear or head=cosine")
        if self.memory.size == 0 and learner.has_memory:
            raise MocaError(f"'{name}' replays from memory, so memory must be at least 1 (it is 0)")
        if self.short_batch == "skip" and self.replay_batch not in (None, self.batch):
            raise MocaError("short_batch=skip is for replay batches as large as new ones; leave out replay_batch")
        if why := learner.why_not(perturb):
            fits = "perturb=none" if learner.refuses else "another perturbation (gaussian, vmf, doa_new, vt)"
            raise Unfit(str(self.learner), self.perturb.name, why, fits)
        if "rules" in self.record and not learner.tests_model:
            raise MocaError(
                "record=rules tests the network that learns with other BatchNorm statistics, but the network that "
                f"'{name}' tests is another one; leave rules out, or test the student: {name}:tested=student"
            )
        if self.bn_passes not in ("replay", "clean") and learner.together:
            raise MocaError(
                f"bn_passes={self.bn_passes} means separate passes; use bn_passes=clean or er:passes=separate"
            )
        if self.bn_passes not in ("replay", "clean", "official"):
            self._check_passes(learner.batches)
        elif self.bn_passes == "official" and learner.official_passes(perturb) is None:
            raise MocaError(
                f"bn_passes=official is not available for {name} with {self.perturb.name}; use bn_passes=clean"
            )
        return self

    def _check_passes(self, letters: str) -> None:
        if not self.bn_passes or set(self.bn_passes) - set(letters):
            raise MocaError(
                f"bn_passes = {self.bn_passes!r}: use replay, clean, official, or the passes in order, made of "
                f"{', '.join(letters)} (n: new batch, b: replay batch, 1, 2, ...: the draws before it)"
            )


def _maker(choice: Choice) -> str:
    """The name of the code behind a part: for pretrained weights, of the encoder that `base` names, if it does."""
    return choice.name if choice.name != "pretrained" else str(choice.options.get("base") or "").partition(":")[0]


ELSEWHERE = ("seed", "data_dir", "device", "threads", "record")
"""Settings in which runs of one method may differ: the seed, the machine, and what is recorded."""
COMMON = ("tasks", "class_order", "arrival", "classes", "protocol", "memory", "model", "epochs", "batch", "augment")
"""Settings for which no learner has its own value: methods that differ in one were run under different conditions."""
VARIANTS = ("adjust", "fixed_angle", "angle_cap")
"""Options that are off by default and turn a learner or perturbation into another method: always part of its name."""
TRAINING = ("image_size", "model", "epochs", "batch", "lr", "optimiser", "schedule", "head", "memory")
"""Training settings: recipes fill in those that are not given, and the run prints them."""
RECIPE = ("tasks", "class_order", *TRAINING)
"""All settings that recipes fill in."""
