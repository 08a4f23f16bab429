"""Schedule: which samples come when, at which learning rate, and how far a run has got."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from moca.random import Random
from moca.settings import Run
from moca.state import Stateful
from moca.streams import Stream, Task


class Schedule(Stateful):
    """The tasks of a stream in epochs and batches. The order of an epoch is a function of the seed and the position
    alone, so that a run goes on in the middle of one."""

    remembers = ("task", "epoch", "batch", "steps_done")

    def __init__(self, settings: Run, stream: Stream) -> None:
        self.settings, self.stream = settings, stream
        self.tasks = stream.merged() if settings.learner.make().sees_all_tasks else stream
        self.task = self.epoch = self.batch = self.steps_done = 0

    @property
    def joint(self) -> bool:
        """Whether all tasks of the stream are learnt at once."""
        return len(self.tasks) < len(self.stream)

    @property
    def current(self) -> Task:
        """The task that is being learnt."""
        return self.tasks[self.task]

    @property
    def batches(self) -> int:
        """Batches in an epoch of the current task."""
        return batches_of(len(self.current.train), self.settings.batch)

    @property
    def task_steps(self) -> int:
        """Steps of the current task."""
        return self.batches * self.settings.epochs

    @property
    def task_steps_done(self) -> int:
        """Those of them that have been done."""
        return self.epoch * self.batches + self.batch

    @property
    def sizes(self) -> set[int]:
        """Of the batches of the current task: whole ones, and a last one of another size."""
        samples, whole = len(self.current.train), self.settings.batch
        return {min(samples, whole), samples - (self.batches - 1) * whole}

    @property
    def total(self) -> int:
        """Steps of a whole run."""
        return sum(batches_of(len(task.train), self.settings.batch) for task in self.tasks) * self.settings.epochs

    @property
    def offered(self) -> int:
        """Samples that come in a whole run."""
        times = self.settings.epochs if self.settings.offer == "every_epoch" else 1
        return times * sum(len(task.train) for task in self.tasks)

    @property
    def offers(self) -> bool:
        """Whether the samples of the current epoch are offered to the memory."""
        return self.epoch == 0 or self.settings.offer == "every_epoch"

    @property
    def learning_rate(self) -> float:
        """The rate of the current epoch."""
        rates, epochs = self.settings.schedule, self.settings.epochs
        if rates.anew:
            return self.settings.lr * rates.factor(self.epoch, epochs)
        return self.settings.lr * rates.factor(self.task * epochs + self.epoch, len(self.tasks) * epochs)

    def epochs_left(self, device: torch.device) -> Iterator[Tensor]:
        """The samples of each epoch of the current task, from the current one on, in the order in which they come."""
        while self.epoch < self.settings.epochs:
            indices = self.current.train.to(device)
            random = Random(self.settings.seed.of("data"), f"order/{self.task}/{self.epoch}", device)
            yield indices[random.permutation(len(indices))]
            self.epoch, self.batch = self.epoch + 1, 0

    def batches_left(self, order: Tensor) -> Iterator[Tensor]:
        """The batches of an epoch from the current one on, each until `advance` says that it is done."""
        size = self.settings.batch
        while self.batch < self.batches:
            last = self.batch == self.batches - 1
            yield order[self.batch * size : None if last else (self.batch + 1) * size]

    def advance(self) -> None:
        """A step has been done."""
        self.batch += 1
        self.steps_done += 1

    def next_task(self) -> bool:
        """Move on to the next task; False after the last one."""
        self.task, self.epoch = self.task + 1, 0
        return self.task < len(self.tasks)


def batches_of(samples: int, size: int) -> int:
    """How many batches of this size an epoch has. A last sample that would be alone goes with the batch before it: its
    loss would weigh as much as that of a whole batch, and BatchNorm would have nothing to compare it with."""
    whole, left = divmod(samples, size)
    return whole + (left > (1 if whole else 0))
