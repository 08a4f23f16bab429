"""The step, and everything that a run must keep to go on exactly where it stopped."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor

from moca import beside
from moca.batch import Batch
from moca.data import Transform
from moca.engine.capture import CapturedStep
from moca.engine.device import captures, check_execution, has_bfloat16, pick_device
from moca.engine.feed import Feed
from moca.engine.numerics import Numerics
from moca.engine.passes import Passes
from moca.learners import LEARNERS, Learner, Losses
from moca.memory import Memory, build_memory
from moca.models import build_model
from moca.perturb import perturbation
from moca.random import Random
from moca.settings import Run
from moca.settings.base import validate
from moca.settings.models import Choice as ModelChoice
from moca.state import Stateful
from moca.streams import Stream

_SMALL = ("convnet", "mlp")
"""Encoders whose operations are so short that more than one thread slows them down, many times on a busy machine."""
_POSITION = ("task", "epoch", "batch", "steps_done", "images_trained")


class Trainer(Stateful):
    """A learner in the middle of a stream: model, optimiser, memory, randomness and position.

    Iterating over `steps()` trains; between any two steps `state_dict` holds all that is needed to go on.
    """

    def __init__(self, settings: Run, stream: Stream) -> None:
        check_execution(settings)
        self.settings, self.device = settings, pick_device(settings.device)
        seeds, protocol = settings.seed, stream.dataset.protocol
        encoder = settings.model or validate(ModelChoice, {"model": protocol.model}).model
        threads = settings.threads or (1 if encoder.name in _SMALL else None)
        self.numerics = Numerics(threads, tf32=settings.precision == "tf32" if self.device.type == "cuda" else None)
        self.model = build_model(encoder, settings.head, stream.dataset.shape, stream.classes, seeds.of("init"))
        self.model.to(self.device)
        self.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.model.bf16 = settings.precision == "bf16" or (settings.precision == "auto" and has_bfloat16(self.device))
        self.lr = torch.tensor(settings.lr, device=self.device)
        self.learner = self._build_learner(stream.classes)
        self.stream = stream
        self.tasks = stream.merged() if self.learner.sees_all_tasks else stream
        self.memory: Memory | None = None
        if self.learner.draws:
            offered = settings.epochs * sum(len(task.train) for task in self.tasks)
            self.memory = build_memory(settings.memory, stream.classes, offered, seeds.of("memory"), self.device)
        self.passes = Passes(settings, self.model)
        self.transform = Transform(
            protocol, Random(seeds.of("augment"), "augment", self.device), augment=settings.augment
        )
        self.feed = Feed(stream.train, self.device, settings.batch)
        self.captured = CapturedStep(self) if captures(settings, self.device) else None
        self.task = self.epoch = self.batch = 0
        self.steps_done = self.images_trained = 0
        self._begin_task()

    def _build_learner(self, classes: int) -> Learner[Any]:
        settings = self.settings
        perturb = perturbation(
            settings.perturb, model=self.model, lr=self.lr, classes=classes, seed=settings.seed.of("perturb")
        )
        one_mean = settings.passes == "concatenated"
        return LEARNERS[settings.learner.name](settings.learner, self.model, classes, perturb, one_mean)

    def _begin_task(self) -> None:
        self.learner.begin_task(self.tasks[self.task].classes)
        self._new_optimiser()

    def _new_optimiser(self) -> None:
        """Every task starts with a fresh optimiser and schedule, as in the official code."""
        self.optimiser = torch.optim.SGD(
            [p for p in self.model.parameters() if p.requires_grad],
            lr=self.lr,
            momentum=self.settings.momentum,
            weight_decay=self.settings.weight_decay,
            fused=self.device.type == "cuda",  # the other kinds read the learning rate back to the host
        )

    @property
    def replay_size(self) -> int:
        """Replayed samples a draw, once the memory holds that many."""
        return self.settings.replay_batch or self.settings.batch

    @property
    def batches(self) -> int:
        """Batches in an epoch of the current task."""
        return -(-len(self.tasks[self.task].train) // self.settings.batch)

    @property
    def learning_rate(self) -> float:
        """The rate of the current epoch; the schedule starts anew with every task."""
        drops = sum(self.epoch >= milestone for milestone in self.settings.lr_milestones)
        return self.settings.lr * self.settings.lr_factor**drops

    def steps(self) -> Iterator[Losses]:
        """Train the current task from the current position to its end, giving each step's losses."""
        self.model.train()
        while self.epoch < self.settings.epochs:
            self.lr.fill_(self.learning_rate)
            with self.numerics():
                order = self._order()
            while self.batch < self.batches:
                index = order[self.batch * self.settings.batch : (self.batch + 1) * self.settings.batch]
                with self.numerics():
                    losses = self.captured(index) if self.captured else self.step(*self.feed(index))
                self.batch += 1
                self.steps_done += 1
                yield losses
            self.epoch, self.batch = self.epoch + 1, 0

    def _order(self) -> Tensor:
        """The samples of this epoch in the order in which they come: a function of the seed and the position alone."""
        device = self.feed.order_device
        indices = self.tasks[self.task].train.to(device)
        random = Random(self.settings.seed.of("data"), f"order/{self.task}/{self.epoch}", device)
        return indices[random.permutation(len(indices))]

    def next_task(self) -> bool:
        """Move on to the next task; False after the last one."""
        self.task, self.epoch = self.task + 1, 0
        if self.task < len(self.tasks):
            self._begin_task()
        return self.task < len(self.tasks)

    def step(self, raw: Tensor, y: Tensor) -> Losses:
        """One update on new samples and a replay of the memory, which is then offered the new samples.

        Compiled where asked for and where the batch is a whole one: every other size would be compiled anew.
        """
        compiled = self.settings.execution == "compiled" and len(y) == self.settings.batch
        batch, drawn = Batch(x=self.transform(raw), y=y), self._replay()
        with self.model.one_step(compiled), beside.step():
            new, replays = self.passes(batch, drawn, self.learner.first_task)
            losses = self.learner.losses(new, *replays)
        self.images_trained += sum(len(batch.y) for batch in (new, *replays))
        self.optimiser.zero_grad()
        torch.stack(list(losses.values())).sum().backward()
        self.optimiser.step()
        if self.memory is not None:
            logits = {"logits": new.logits.detach()} if self.learner.stores_logits else {}
            self.memory.add(image=raw, y=y, **logits)
        return {name: loss.detach() for name, loss in losses.items()}

    def _replay(self) -> list[Batch]:
        """Independent draws from the memory, each image transformed afresh."""
        if self.memory is None or len(self.memory) == 0:
            return []
        return [self._replayed(self.memory.draw(self.replay_size)) for _ in range(self.learner.draws)]

    def _replayed(self, drawn: dict[str, Tensor]) -> Batch:
        logits = {"logits": drawn["logits"]} if "logits" in drawn else {}
        return Batch(x=self.transform(drawn["image"]), y=drawn["y"], old=self.learner.is_old(drawn["y"]), **logits)

    def state(self) -> dict[str, Any]:
        """All that changes during a run."""
        return {
            "position": {name: getattr(self, name) for name in _POSITION},
            "model": dict(self.model.state_dict()),
            "optimiser": self.optimiser.state_dict(),
            "learner": self.learner.state(),
            "memory": self.memory.state() if self.memory is not None else None,
            "augment": self.transform.random.state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from where `state` was taken."""
        if self.captured:
            self.captured.forget()
        for name in _POSITION:
            setattr(self, name, state["position"][name])
        self.model.load_state_dict(state["model"])
        self._new_optimiser()
        self.optimiser.load_state_dict(deepcopy(state["optimiser"]))
        for group in self.optimiser.param_groups:
            group["lr"] = self.lr
        self.learner.load_state_dict(state["learner"])
        if self.memory is not None:
            self.memory.load_state_dict(state["memory"])
        self.transform.random.load_state_dict(state["augment"])


def count_steps(settings: Run, stream: Stream) -> int:
    """Steps of a whole run."""
    tasks = stream.merged() if LEARNERS[settings.learner.name].sees_all_tasks else stream
    return sum(-(-len(task.train) // settings.batch) for task in tasks) * settings.epochs
