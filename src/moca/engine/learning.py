"""Learning: model, learner, memory and optimiser, trained step by step on the batches that arrive."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from copy import deepcopy
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from moca import graph_branch
from moca.batch import Batch
from moca.data import Protocol, Transform
from moca.engine.device import has_bfloat16, pick_device
from moca.engine.held_out import HeldOut
from moca.engine.optimiser import build_optimiser, carry_over, load_optimiser
from moca.engine.outputs import Outputs
from moca.engine.passes import Passes
from moca.errors import MocaError
from moca.learners import Learner, Losses
from moca.locking import Turn
from moca.memory import Memory
from moca.models import build_model
from moca.numerics import Numerics
from moca.perturb import perturbation
from moca.random import Random, derive, seeded
from moca.settings import Run
from moca.state import Stateful, on
from moca.streams import Task


class Step(NamedTuple):
    """The result of a step: the terms of its loss, and the tensors that watchers requested."""

    losses: Losses
    outputs: dict[str, Tensor]


def _checked(losses: Losses, name: str) -> Losses:
    """The learner's losses, if they are terms of a loss that can be trained on; otherwise a `MocaError`."""
    terms = losses.values() if isinstance(losses, dict) else ()
    if not terms or not all(isinstance(term, Tensor) and term.dim() == 0 for term in terms):
        raise MocaError(f"losses of '{name}' must return the terms of the loss by name, each a tensor of one number")
    if not any(term.requires_grad for term in terms):
        why = "they are detached" if torch.is_grad_enabled() else "gradients are off; call moca outside torch.no_grad()"
        raise MocaError(f"losses of '{name}' returns terms that nothing can be learnt from: {why}")
    return losses


def _spoilt(replay: Batch) -> bool:
    """Whether the perturbation made features of a replayed batch, all of finite length, infinite or NaN."""
    moved = vars(replay).get("moved")
    return moved is not None and bool(replay.features.norm(dim=1).isfinite().all()) and not bool(moved.isfinite().all())


def _checked_scores(scores: Tensor, classes: int, name: str) -> Tensor:
    """What the learner's `predict` returned, if it is one score for each class; otherwise a `MocaError`."""
    if isinstance(scores, Tensor) and scores.shape[1:] == (classes,):
        return scores
    shape = ("n", *scores.shape[1:]) if isinstance(scores, Tensor) else ()
    got = str(shape).replace("'", "") if shape else f"a {type(scores).__name__}"
    raise MocaError(
        f"predict of '{name}' must return a score for each of the {classes} classes: (n, {classes}), not {got}"
    )


class Learning(Stateful):
    """A learner in training, independent of any stream: it is given batches and tasks, and the classes may grow.

    Between any two steps, `state_dict` holds everything needed to resume.
    """

    def __init__(
        self,
        settings: Run,
        protocol: Protocol,
        shape: tuple[int, int, int],
        classes: int,
        offered: int | None = None,
        outputs: Sequence[str] = (),
        instead: Mapping[Any, Any] = MappingProxyType({}),
    ) -> None:
        """Build everything that `settings`, which must be complete, describe.

        `offered` is the number of samples that will arrive, if known; `outputs` names the tensors that every step
        returns. `instead` replaces policies of the learner's memory, `Store` or `Draw`, by others.
        """
        assert settings.model is not None
        self.device, self.classes = pick_device(settings.device), classes
        seeds = settings.seed
        self.learner: Learner = settings.learner.make()
        self.model = build_model(
            settings.model, settings.head, shape, classes, seeds.of("init"), self.learner.outputs
        ).to(self.device)
        self.settings = settings.model_copy(update={"model": self.model.made_by})
        """The settings to resume with: those of the encoder inside, since pretrained weights are now in its state."""
        self.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.model.bf16 = settings.precision == "bf16" or (settings.precision == "auto" and has_bfloat16(self.device))
        threads = settings.threads or (1 if getattr(self.model.encoder, "small", False) else None)
        self.numerics = Numerics(threads, tf32=settings.precision == "tf32" if self.device.type == "cuda" else None)
        self.lr = torch.tensor(settings.lr, device=self.device)
        self.transform = Transform(
            protocol, Random(seeds.of("augment"), "augment", self.device), augment=settings.augment
        )
        self.sample_bytes = math.prod(shape) * (4 if protocol.vectors else 1)
        """Bytes of an image (one per pixel and channel), or of a vector of floats."""
        slots, held_out = self._slots(), Random(seeds.of("memory"), "memory/held", self.device)
        self.held = HeldOut(slots, held_out, self.learner.expected_adjust) if self.learner.holds_out else None
        """Held-out samples for `adjust=auto`, if the learner uses it; they take some of the memory's slots."""
        self.memory = self._new_memory(slots - (self.held.size if self.held else 0), offered, instead)
        moved = perturbation(settings.perturb, model=self.model, lr=self.lr, classes=classes, seed=seeds.of("perturb"))
        moved.random.to(self.device)
        self.learner.attach(
            self.model,
            classes,
            perturbation=moved,
            memory=self.memory,
            view=Transform.plain(protocol, self.device),
            augment=self.transform,
            lr=self.lr,
            random=Random(seeds.of("perturb"), "learner", self.device),
            skips_short=settings.short_batch == "skip",
        )
        self.passes = Passes(settings.bn_passes, self.learner)
        self.outputs = Outputs(outputs)
        self.turn: AbstractContextManager[None] = Turn()
        """Lock for threads that predict: meanwhile the model is in evaluation mode, and its weights may be rounded."""
        self.generator_state: torch.Generator | None = None
        """This run's state of torch's GPU generator, from which user-defined parts draw."""
        self.images_trained = 0
        self.offers = True
        """Whether a step offers its new samples to the memory."""
        self.spoilt_by_perturbation = False
        """Whether the perturbation has made finite features infinite or NaN; looked at in runs with user code, on a
        CPU, where that does not stall the step."""
        self._new_optimiser()

    def _slots(self) -> int:
        """The number of samples that the memory of the settings holds."""
        memory = self.settings.memory
        if memory.per == "bytes" and self.learner.has_memory:
            return self._samples_that_fit()
        return memory.size * (self.classes if memory.per == "class" else 1)

    def _new_memory(self, slots: int, offered: int | None, instead: Mapping[Any, Any]) -> Memory | None:
        """A memory with this many slots, or fewer if not so many samples will be offered; None if the learner has
        none."""
        learner, seed = self.learner, self.settings.seed.of("memory")
        if not learner.has_memory:
            return None
        size = slots if offered is None else min(slots, offered)
        storing, drawing = (instead.get(policy, policy) for policy in (learner.store, learner.draw))
        store = storing and storing(size, Random(seed, "memory/store", self.device), learner)
        return Memory(size, store, drawing(Random(seed, "memory/draw", self.device), learner))

    def _samples_that_fit(self) -> int:
        """How many samples fit a memory given in bytes: each has an image, a label, and the fields in `keeps`."""
        sizes = {"logits": 4 * self.classes * self.learner.outputs, "features": 4 * self.model.head.weight.shape[1]}
        each = self.sample_bytes + 8 + sum(sizes.get(name, 8) for name in self.learner.keeps)
        if (fit := self.settings.memory.size // each) < 1:
            raise MocaError(f"a memory of {self.settings.memory.size:,} bytes holds no sample, which takes {each:,}")
        return fit

    def _new_optimiser(self) -> None:
        self.optimiser = build_optimiser(self.settings.optimiser, self.model.parameters(), self.lr)

    @property
    def stores(self) -> bool:
        """Whether a step changes the memory."""
        return self.offers and self.learner.store is not None

    @property
    def replay_size(self) -> int:
        """The size of a replay batch, once the memory holds that many samples."""
        return self.settings.replay_batch or self.settings.batch

    def begin_task(self, task: Task) -> None:
        """Start a task."""
        self.learner.begin(task)
        if self.settings.optimiser.anew:
            self._new_optimiser()

    def end_task(self, samples: Batch | None, held: Batch | None = None) -> None:
        """Finish a task.

        `samples` are its training samples, None if the learner does nothing at the end of a task; `held` are those
        held out of training, possibly none.
        """
        self.model.eval()
        if samples is not None:
            self.learner.end_task(samples)
        if self.held is not None and held is not None:
            self.held.end_task(self.learner, held.image, held.y)
        self.model.train()

    @contextmanager
    def drawing(self) -> Iterator[None]:
        """Seed torch's generators for user-defined parts that draw from them, as dropout does, and restore them after.

        The seed follows from the run's seed and progress. Built-in parts have their own random numbers.
        """
        if not self.settings.with_own_code:
            yield
            return
        seed = derive(self.settings.seed.of("perturb"), f"torch/{self.images_trained}")
        with seeded(seed), self._own_generator() as on_device:
            if on_device is not None:
                on_device.manual_seed(seed)
            yield

    @contextmanager
    def _own_generator(self) -> Iterator[torch.Generator | None]:
        """Inside, torch's GPU generator has a state of this run's own.

        A recorded step keeps reading the state it was recorded with, and those of packed runs are replayed at the same
        time, so runs must not share one.
        """
        if self.device.type != "cuda":
            yield None
            return
        index = torch.cuda.current_device() if self.device.index is None else self.device.index
        generator = torch.cuda.default_generators[index]
        if self.generator_state is None:
            self.generator_state = generator.clone_state()
        others = generator.graphsafe_get_state()
        generator.graphsafe_set_state(self.generator_state)
        try:
            yield generator
        finally:
            generator.graphsafe_set_state(others)

    def step(self, raw: Tensor, y: Tensor) -> Step:
        """One update on new and replayed samples; the new ones are then offered to the memory.

        With `execution=compiled`, only full batches run compiled, since every other size would need a compilation.
        """
        compiled = self.settings.execution == "compiled" and len(y) == self.settings.batch
        batch = Batch(image=raw, x=self.transform(raw), y=y)
        drawn = self._replay(batch)
        with self.model.one_step(compiled), graph_branch.step():
            new, replays = self.passes(batch, drawn)
            losses = _checked(self.learner.losses(new, *replays), self.settings.learner.name)
        self.images_trained += sum(len(batch.y) for batch in (new, *replays))
        if self.settings.with_own_code and self.device.type == "cpu":
            self.spoilt_by_perturbation |= any(map(_spoilt, replays))
        self.outputs.watch(new, replays)
        self.learner.update(losses, self.optimiser)
        if self.memory is not None and self.stores:
            extra = {name: getattr(new, name).detach() for name in self.learner.keeps}
            self.memory.add(image=raw, y=y, **extra)
        return Step({name: loss.detach() for name, loss in losses.items()}, self.outputs.collect(new, replays))

    def _replay(self, new: Batch) -> list[Batch]:
        """Independent draws from the memory, each with a new augmentation of its images."""
        if self.memory is None or len(self.memory) == 0:
            return []
        return [self._replayed(self.memory.draw(self.replay_size, new)) for _ in range(self.learner.draws)]

    def _replayed(self, drawn: dict[str, Tensor]) -> Batch:
        return Batch(**drawn, x=self.transform(drawn["image"]), old=self.learner.is_old(drawn["y"]))

    def predict(self, x: Tensor) -> Tensor:
        """The learner's adjusted score for every class, for images as the encoder sees them."""
        scores = _checked_scores(self.learner.predict(x), self.classes, self.settings.learner.name)
        return self.learner.adjusted(scores)

    def grow(self, classes: int) -> None:
        """Extend to more classes: the head, the optimiser's state, the learner's counters and the memory."""
        if classes <= self.classes:
            return
        before, old = list(self.model.parameters()), self.optimiser
        with seeded(derive(self.settings.seed.of("init"), f"grow/{classes}")):
            self.model.grow(classes)
        self.learner.grow(classes)
        if self.memory is not None:
            self.memory.grow(classes)
        self._new_optimiser()
        carry_over(old, self.optimiser, dict(zip(self.model.parameters(), before, strict=True)))
        self.classes = classes
        if self.memory is not None and self.settings.memory.per == "bytes":
            others = self.held.size if self.held is not None else 0
            self.memory.shrink(max(1, self._samples_that_fit() - others))  # stored logits have become longer

    def state(self) -> dict[str, Any]:
        """Everything that changes during training."""
        return {
            "classes": self.classes,
            "lr": self.lr,
            "images_trained": self.images_trained,
            "model": dict(self.model.state_dict()),
            "optimiser": self.optimiser.state_dict(),
            "learner": self.learner.state(),
            "memory": self.memory.state() if self.memory is not None else None,
            "augment": self.transform.random.state(),
        } | ({} if self.held is None else {"held": self.held.state()})

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state, taken on any device."""
        state = on(self.device, state)
        self.grow(state["classes"])
        self.lr.copy_(state["lr"])
        self.images_trained = state["images_trained"]
        self.model.load_state_dict(state["model"])
        self._new_optimiser()
        load_optimiser(self.optimiser, deepcopy(state["optimiser"]), self.lr)
        self.learner.load_state_dict(state["learner"])
        if self.memory is not None:
            self.memory.load_state_dict(state["memory"])
        self.transform.random.load_state_dict(state["augment"])
        if self.held is not None:
            self.held.load_state_dict(state["held"])
            self.held.adjust(self.learner)
