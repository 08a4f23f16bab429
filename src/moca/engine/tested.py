"""The accuracies of a run so far: on every task, before training and after each task."""

from __future__ import annotations

import math
from collections.abc import Sequence

from moca.engine.evaluate import Accuracies
from moca.engine.schedule import Schedule
from moca.engine.watch import TaskRecord
from moca.measures.accuracy import final_accuracy
from moca.streams import Stream


class Tested:
    """The accuracy matrices of a run in progress, one row per test."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule, self.stream = schedule, schedule.stream
        self.class_il: list[list[float]] = []
        """Accuracies among all classes."""
        self.task_il: list[list[float]] = []
        """Accuracies among the classes of the sample's own task."""
        self.over_stream: list[list[float]] = []
        """Evaluations in the middle of tasks: steps so far, and the mean accuracy over the tasks begun by then."""

    def add(self, accuracies: Accuracies, seconds: float) -> TaskRecord:
        """Add a test after `seconds` of training; returns the record for watchers."""
        self.class_il.append(accuracies.class_il)
        self.task_il.append(accuracies.task_il)
        learned, steps = len(self.class_il) - 1, self.schedule.steps_done
        return TaskRecord(learned, accuracies, steps, seconds, len(self.first(learned)), self.accuracy)

    @property
    def accuracy(self) -> float:
        """The mean over the tasks learned so far, at the last test; NaN before the first task is learned."""
        tasks = self.first(max(0, len(self.class_il) - 1))
        return mean_over(tasks, self.class_il[-1][: len(tasks)]) if len(tasks) else math.nan

    def first(self, tasks: int) -> Stream:
        """The part of the stream that the first `tasks` tasks of the schedule cover; joint training has all in one."""
        return self.stream[: len(self.stream) * bool(tasks) if self.schedule.joint else tasks]

    def at_chance(self, learnt: int) -> bool:
        """Whether accuracy even on the task learned last is no better than chance: among its own classes, or among all
        `learnt` classes if it has only one."""
        several = len(self.stream[-1].tested) > 1
        rivals, judged = (len(self.stream[-1].tested), self.task_il) if several else (learnt, self.class_il)
        return rivals > 1 and judged[-1][-1] < 1.1 / rivals


def mean_over(tasks: Stream, accuracies: Sequence[float]) -> float:
    """The mean accuracy over these tasks, weighted by their number of classes."""
    return final_accuracy([accuracies], [len(task.tested) for task in tasks])
