"""Schedule: which samples come when, at which learning rate, and the position of a run."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from moca.random import Random
from moca.settings import Run
from moca.state import Stateful
from moca.streams import Stream, Task


class Schedule(Stateful):
    """The tasks of a stream in epochs and batches.

    The order of an epoch is a function of seed and position only, so a run can resume in the middle of one.
    """

    remembers = ("task", "epoch", "batch", "steps_done")

    def __init__(self, settings: Run, stream: Stream) -> None:
        self.settings, self.stream = settings, stream
        self.tasks = stream.merged() if settings.learner.make().sees_all_tasks else stream
        self.task = self.epoch = self.batch = self.steps_done = 0

    @property
    def joint(self) -> bool:
        """Whether all tasks of the stream are trained at once."""
        return len(self.tasks) < len(self.stream)

    @property
    def current(self) -> Task:
        """The current task."""
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
        """Steps of the current task done so far."""
        return self.epoch * self.batches + self.batch

    @property
    def sizes(self) -> set[int]:
        """Batch sizes of the current task: that of full batches, and that of the last one."""
        samples, whole = len(self.current.train), self.settings.batch
        return {min(samples, whole), samples - (self.batches - 1) * whole}

    @property
    def total(self) -> int:
        """Steps of the whole run."""
        return sum(batches_of(len(task.train), self.settings.batch) for task in self.tasks) * self.settings.epochs

    @property
    def offered(self) -> int:
        """Samples offered to the memory in the whole run."""
        times = self.settings.epochs if self.settings.offer == "every_epoch" else 1
        return times * sum(len(task.train) for task in self.tasks)

    @property
    def offers(self) -> bool:
        """Whether the samples of the current epoch are offered to the memory."""
        return self.epoch == 0 or self.settings.offer == "every_epoch"

    @property
    def learning_rate(self) -> float:
        """The learning rate of the current epoch."""
        rates, epochs = self.settings.schedule, self.settings.epochs
        if rates.anew:
            return self.settings.lr * rates.factor(self.epoch, epochs)
        return self.settings.lr * rates.factor(self.task * epochs + self.epoch, len(self.tasks) * epochs)

    def epochs_left(self, device: torch.device) -> Iterator[Tensor]:
        """The remaining epochs of the current task, each as sample indices in order."""
        while self.epoch < self.settings.epochs:
            indices = self.current.train.to(device)
            random = Random(self.settings.seed.of("data"), f"order/{self.task}/{self.epoch}", device)
            yield indices[random.permutation(len(indices))]
            self.epoch, self.batch = self.epoch + 1, 0

    def batches_left(self, order: Tensor) -> Iterator[Tensor]:
        """The remaining batches of an epoch; the same one is yielded again until `advance` is called."""
        size = self.settings.batch
        while self.batch < self.batches:
            last = self.batch == self.batches - 1
            yield order[self.batch * size : None if last else (self.batch + 1) * size]

    def advance(self) -> None:
        """Count a step as done."""
        self.batch += 1
        self.steps_done += 1

    def next_task(self) -> bool:
        """Advance to the next task; False after the last one."""
        self.task, self.epoch = self.task + 1, 0
        return self.task < len(self.tasks)


def batches_of(samples: int, size: int) -> int:
    """The number of batches of this size in an epoch.

    A single left-over sample joins the batch before it: alone, its loss would weigh as much as that of a full batch,
    and BatchNorm would have nothing to normalise it with.
    """
    whole, left = divmod(samples, size)
    return whole + (left > (1 if whole else 0))
