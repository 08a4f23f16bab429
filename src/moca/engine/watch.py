"""Watchers: told about the steps, the tasks and the end of a run. None of them can change it; one can end it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from torch import Tensor

from moca.engine.evaluate import Accuracies
from moca.errors import Diverged

if TYPE_CHECKING:
    from moca.engine.result import Result
    from moca.engine.run import Running
    from moca.engine.schedule import Schedule


@dataclass(frozen=True)
class StepRecord:
    """What one step did, and where in the run it was."""

    step: int
    """From 1 on."""
    task: int
    """From 0 on."""
    epoch: int
    """Of the task, from 0 on."""
    lr: float
    """The learning rate."""
    losses: dict[str, float]
    """The terms of the loss."""
    outputs: dict[str, Tensor] = field(default_factory=dict)
    """The tensors that were asked for, on the device."""

    @property
    def loss(self) -> float:
        """The sum of its terms."""
        return sum(self.losses.values())


@dataclass(frozen=True)
class TaskRecord:
    """What a test found out."""

    learned: int
    """Tasks learned so far; none before training."""
    accuracies: Accuracies
    """On every task of the stream."""
    steps: int
    """Done so far."""
    seconds: float
    """Training time so far."""
    tasks: int = 0
    """How many tasks of the stream have been learned so far: after joint training all of them."""
    accuracy: float = math.nan
    """The mean over these, all classes competing."""


class Watcher:
    """Is told about the steps, the tasks and the end of a run, and cannot change it. Override what you want to know.

    Steps come in groups, some time after they were done: a GPU is not waited for.

    Example:
        >>> class Losses(moca.Watcher):
        ...     def step(self, record):
        ...         seen.append(record.loss)
        >>> seen = []
        >>> result = moca.run(watch=Losses(), epochs=1)
        >>> len(seen) == result.steps
        True
    """

    wants: Sequence[str] = ()
    """Outputs of a step that are to be in its record: `new.x`, `new.y`, `new.features`, `new.logits`; the same of
    `replay`, and `replay.moved` and `replay.old`; `new.features.gradient`, `replay.features.gradient`,
    `replay.moved.gradient`."""

    def begin(self, run: Running) -> None:
        """A run begins, or goes on."""

    def due(self, schedule: Schedule) -> bool:
        """Whether it wants the outputs of the step that comes next; one that nobody wants costs nothing."""
        return True

    def steps(self, records: Sequence[StepRecord]) -> None:
        """Some steps have been done; by default each is handed to `step`."""
        for record in records:
            self.step(record)

    def step(self, record: StepRecord) -> None:
        """A step has been done."""

    def task(self, record: TaskRecord) -> None:
        """A task has been learned, and all of them tested; also before training."""

    def end(self, result: Result) -> None:
        """The run has ended."""


Advance = Callable[[int, str], None]
"""Called with the number of steps just done (negative: to be done again) and where the run is."""


class Progress(Watcher):
    """Says how far the run is."""

    def __init__(self, advance: Advance) -> None:
        self.advance = advance

    def begin(self, run: Running) -> None:
        """Know how many tasks there are, and how well those before were learned."""
        self.tasks, self.accuracy = len(run.trainer.schedule.tasks), run.tested.accuracy

    def steps(self, records: Sequence[StepRecord]) -> None:
        """So many more are done."""
        learned = "" if math.isnan(self.accuracy) else f", acc {100 * self.accuracy:.1f} %"
        self.advance(len(records), f"task {records[-1].task + 1}/{self.tasks}{learned}")

    def task(self, record: TaskRecord) -> None:
        """So well are the tasks known that have been learned."""
        self.accuracy = record.accuracy


class Guard(Watcher):
    """Ends a run whose loss is no longer a number."""

    def begin(self, run: Running) -> None:
        """Know what could help."""
        self.folder = run.folder.path
        self.advice = "lower lr" + (" or lambda" if run.settings.perturb.name != "none" else "")

    def step(self, record: StepRecord) -> None:
        """Look at the loss."""
        if not math.isfinite(record.loss):
            raise Diverged(
                f"the loss is no longer a finite number at step {record.step} (task {record.task + 1}, epoch "
                f"{record.epoch + 1}); {self.advice}. The metrics up to there are in {self.folder}"
            )
