"""The journal of a run folder: losses of every step, accuracies after every task."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import takewhile
from typing import TYPE_CHECKING

from moca.engine.evaluate import Accuracies
from moca.engine.folder import STEPS, TASKS
from moca.engine.watch import StepRecord, Watcher

if TYPE_CHECKING:
    from moca.engine.run import Running


class Journal(Watcher):
    """Writes a line for every step and one for every test, up to the first loss that is not a number."""

    def begin(self, run: Running) -> None:
        """Know where to write."""
        self.run = run

    def steps(self, records: Sequence[StepRecord]) -> None:
        """Lines of steps.jsonl."""
        sound = takewhile(lambda record: math.isfinite(record.loss), records)
        self.run.folder.append(STEPS, [_line(record) for record in sound])

    def task(self, learned: int, accuracies: Accuracies) -> None:
        """A line of tasks.jsonl."""
        line = {"learned": learned, "class_il": accuracies.class_il, "task_il": accuracies.task_il}
        self.run.folder.append(TASKS, [line | {"steps": self.run.steps_done, "seconds": self.run.seconds}])


def _line(record: StepRecord) -> dict[str, float]:
    place = {"step": record.step, "task": record.task, "epoch": record.epoch, "lr": record.lr}
    return place | {"loss": record.loss, **{f"loss_{name}": value for name, value in record.losses.items()}}
