"""Watchers: notified of the steps, the tasks and the end of a run. They cannot change it; `Guard` can end it."""

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
    """The losses of one step, and its position in the run."""

    step: int
    """The number of the step, from 1."""
    task: int
    """The index of the task, from 0."""
    epoch: int
    """The epoch within the task, from 0."""
    lr: float
    """The learning rate."""
    losses: dict[str, float]
    """The terms of the loss."""
    outputs: dict[str, Tensor] = field(default_factory=dict)
    """The requested tensors, on the device."""

    @property
    def loss(self) -> float:
        """The sum of its terms."""
        return sum(self.losses.values())


@dataclass(frozen=True)
class TaskRecord:
    """The result of a test: before training, or after a task."""

    learned: int
    """Tasks learned so far; 0 before training."""
    accuracies: Accuracies
    """On every task of the stream."""
    steps: int
    """Steps done so far."""
    seconds: float
    """Training time so far."""
    tasks: int = 0
    """How many tasks of the stream have been learned so far; after joint training, all of them."""
    accuracy: float = math.nan
    """The mean accuracy over these, among all classes."""


class Watcher:
    """Is notified of the steps, the tasks and the end of a run, and cannot change it. Override what you need.

    Steps are reported in groups, some time after they were done, to avoid waiting for the GPU.

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
    """Outputs of a step to include in its record: `new.x`, `new.y`, `new.features`, `new.logits`; the same for
    `replay`, and `replay.moved` and `replay.old`; `new.features.gradient`, `replay.features.gradient`,
    `replay.moved.gradient`."""

    def begin(self, run: Running) -> None:
        """Called when a run starts or is resumed."""

    def due(self, schedule: Schedule) -> bool:
        """Whether it wants the outputs of the next step; a step whose outputs no watcher wants costs nothing extra."""
        return True

    def steps(self, records: Sequence[StepRecord]) -> None:
        """Called with a group of finished steps; by default passes each to `step`."""
        for record in records:
            self.step(record)

    def step(self, record: StepRecord) -> None:
        """Called with each finished step."""

    def task(self, record: TaskRecord) -> None:
        """Called after each task, when all tasks have been tested; also once before training."""

    def end(self, result: Result) -> None:
        """Called when the run has ended."""


Advance = Callable[[int, str], None]
"""Called with the number of steps just done (negative: these will be done again) and where the run is."""


class Progress(Watcher):
    """Reports the progress of a run."""

    def __init__(self, advance: Advance) -> None:
        self.advance = advance

    def begin(self, run: Running) -> None:
        """Note the number of tasks, and the accuracy so far."""
        self.tasks, self.accuracy = len(run.trainer.schedule.tasks), run.tested.accuracy

    def steps(self, records: Sequence[StepRecord]) -> None:
        """Report the steps as done."""
        learned = "" if math.isnan(self.accuracy) else f", acc {100 * self.accuracy:.1f} %"
        self.advance(len(records), f"task {records[-1].task + 1}/{self.tasks}{learned}")

    def task(self, record: TaskRecord) -> None:
        """Note the new accuracy."""
        self.accuracy = record.accuracy


class Guard(Watcher):
    """Ends a run whose loss is no longer finite."""

    def begin(self, run: Running) -> None:
        """Note what the error message depends on."""
        self.folder, self.settings, self.learning = run.folder.path, run.settings, run.trainer.learning

    def step(self, record: StepRecord) -> None:
        """Raise `Diverged` if the loss is not finite."""
        if not math.isfinite(record.loss):
            terms = ", ".join(f"losses['{name}']" for name, loss in record.losses.items() if not math.isfinite(loss))
            raise Diverged(
                f"the loss is no longer a finite number at step {record.step} (task {record.task + 1}, epoch "
                f"{record.epoch + 1}){terms and f': {terms}'}; {self._advice(record.step)}. The metrics up to there "
                f"are in {self.folder}"
            )

    def _advice(self, step: int) -> str:
        moved = self.settings.perturb.name
        if self.learning.spoilt_by_perturbation:
            return f"'{moved}' made finite features NaN or infinite; look at its direction"
        if step == 1:
            return "nothing was trained before, so it is not lr: look at the losses, the encoder and the images"
        own = ", or look at your own code" * self.settings.with_own_code
        return "lower lr" + " or lambda" * (moved != "none") + own
