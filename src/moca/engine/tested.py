"""What the tests of a run have found so far: the accuracy on every task, before training and after each task."""

from __future__ import annotations

import math
from collections.abc import Sequence

from moca.engine.evaluate import Accuracies
from moca.engine.schedule import Schedule
from moca.engine.watch import TaskRecord
from moca.measures.accuracy import final_accuracy
from moca.streams import Stream


class Tested:
    """The accuracy matrices of a run under way, a row for each test."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule, self.stream = schedule, schedule.stream
        self.class_il: list[list[float]] = []
        """All classes competing."""
        self.task_il: list[list[float]] = []
        """Only those of the sample's own task."""
        self.over_stream: list[list[float]] = []
        """Where the run was evaluated on the way: steps, and the mean accuracy over the tasks begun by then."""

    def add(self, accuracies: Accuracies, seconds: float) -> TaskRecord:
        """One more test, after so much training time; what watchers are told of it."""
        self.class_il.append(accuracies.class_il)
        self.task_il.append(accuracies.task_il)
        learned, steps = len(self.class_il) - 1, self.schedule.steps_done
        return TaskRecord(learned, accuracies, steps, seconds, len(self.first(learned)), self.accuracy)

    @property
    def accuracy(self) -> float:
        """The mean over the tasks learned so far, when they were last tested; NaN before there is one."""
        tasks = self.first(max(0, len(self.class_il) - 1))
        return mean_over(tasks, self.class_il[-1][: len(tasks)]) if len(tasks) else math.nan

    def first(self, tasks: int) -> Stream:
        """What the first tasks of the schedule are of the stream: joint training has them all in one."""
        return self.stream[: len(self.stream) * bool(tasks) if self.schedule.joint else tasks]

    def at_chance(self, learnt: int) -> bool:
        """Whether even the task learned last is told no better than by guessing, its classes alone competing; all
        classes that were learnt, where it has but one."""
        several = len(self.stream[-1].tested) > 1
        rivals, judged = (len(self.stream[-1].tested), self.task_il) if several else (learnt, self.class_il)
        return rivals > 1 and judged[-1][-1] < 1.1 / rivals


def mean_over(tasks: Stream, accuracies: Sequence[float]) -> float:
    """The mean accuracy over these tasks, each counting as much as it has classes."""
    return final_accuracy([accuracies], [len(task.tested) for task in tasks])
