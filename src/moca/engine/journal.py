"""The journal of a run folder: the losses of every step, and the accuracies after every task."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from itertools import takewhile
from typing import TYPE_CHECKING

from moca.engine.folder import STEPS, TASKS
from moca.engine.watch import StepRecord, TaskRecord, Watcher

if TYPE_CHECKING:
    from moca.engine.run import Running


class Journal(Watcher):
    """Writes one line for every step and every test, up to the first loss that is not finite."""

    def begin(self, run: Running) -> None:
        """Note the folder to write to."""
        self.folder = run.folder

    def steps(self, records: Sequence[StepRecord]) -> None:
        """Append lines to steps.jsonl."""
        finite = takewhile(lambda record: math.isfinite(record.loss), records)
        self.folder.append(STEPS, [_line(record) for record in finite])

    def task(self, record: TaskRecord) -> None:
        """Append a line to tasks.jsonl."""
        line = {"learned": record.learned, **asdict(record.accuracies)}
        self.folder.append(TASKS, [line | {"steps": record.steps, "seconds": record.seconds}])


def _line(record: StepRecord) -> dict[str, float]:
    place = {"step": record.step, "task": record.task, "epoch": record.epoch, "lr": record.lr}
    return place | {"loss": record.loss, **{f"loss_{name}": value for name, value in record.losses.items()}}
