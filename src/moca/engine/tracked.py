"""A tracked run: which numbers its tracker gets, and when; a tracker that fails does no harm to the run."""

from __future__ import annotations

import math
import re
import time
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from moca.engine import tracking
from moca.engine.watch import StepRecord, TaskRecord, Watcher
from moca.errors import MocaWarning, first_line
from moca.settings import Choice, flat, word
from moca.trackers.base import About, Point, Tracker

if TYPE_CHECKING:
    from moca.engine.result import Result
    from moca.engine.run import Running

_INTERVAL = 1.0
"""Least seconds between two calls, so that a fast run does not wait for a slow tracker at every group of steps."""
_RETRY_AFTER = 60.0
"""Seconds until a tracker that failed is tried again; doubled after each failure."""


class Tracked(Watcher):
    """Tells one tracker about a run."""

    def __init__(self, choice: Choice) -> None:
        self.tracker: Tracker = choice.make()
        self.choice = tracking.as_choice(self.tracker)  # a tracker may have changed its options: made a path absolute
        self.every = self.tracker.every
        self.records: list[StepRecord] = []
        self.points: list[Point] = []
        self.opened, self.warned, self.pause, self.not_before = False, False, _RETRY_AFTER, 0.0

    def begin(self, run: Running) -> None:
        """Start the run in the tracker, or resume it."""
        self.folder, self.width = run.folder, len(str(len(run.stream)))
        path, settings = run.folder.path.resolve(), flat(run.settings.model_dump(mode="json", by_alias=True))
        in_short = {name: word(value) if isinstance(value, list) else value for name, value in settings.items()}
        self.about = About(path.name, path, in_short, run.steps_done)
        self._send_pending()

    def steps(self, records: Sequence[StepRecord]) -> None:
        """Log the mean losses of every `every` steps."""
        for record in records:
            self.records.append(record)
            if len(self.records) == self.every:
                self._summarise()
        self._send_pending()

    def task(self, record: TaskRecord) -> None:
        """Log the accuracies on the tasks learned so far."""
        self._summarise()
        numbers = {"class_il/mean": record.accuracy} if record.tasks else {}
        for kind, accuracies in (("class_il", record.accuracies.class_il), ("task_il", record.accuracies.task_il)):
            for number, value in enumerate(accuracies[: record.tasks], 1):
                numbers[f"{kind}/task_{number:0{self.width}}"] = value
        self._add(record.steps, numbers)
        self._send_pending()

    def end(self, result: Result) -> None:
        """Log the final numbers and the status."""
        self._summarise()
        finished = result.numbers() if result.finished else {}
        numbers = {f"result/{name}": value for name, value in finished.items() if math.isfinite(value)}
        if self._send_pending(now=True):
            self._try(lambda: self.tracker.close(result.status, Point(result.steps, numbers)))

    def _summarise(self) -> None:
        """Turn the collected steps into one point, with the mean of each loss that is finite."""
        if self.records:
            last, sums = self.records[-1], dict[str, list[float]]()
            for record in self.records:
                for name, value in [("total", record.loss), *record.losses.items()]:
                    sums.setdefault(f"loss/{name}", []).append(value)
            means = {name: math.fsum(values) / len(values) for name, values in sums.items()}
            self._add(last.step, means | {"lr": last.lr})
            self.records = []

    def _add(self, step: int, numbers: dict[str, float]) -> None:
        finite = {name: value for name, value in numbers.items() if math.isfinite(value)}
        if finite:
            self.points.append(Point(step, finite))

    def _send_pending(self, now: bool = False) -> bool:
        """Send the pending points, unless the last call or failure was too recent; return whether they were sent."""
        if not now and time.monotonic() < self.not_before:
            return False
        self.not_before = time.monotonic() + _INTERVAL
        return self._try(self._open_and_log)

    def _open_and_log(self) -> None:
        if not self.opened:
            run = self.tracker.open(self.about, tracking.known_by(self.folder, self.choice))
            tracking.keep(self.folder, self.choice, run)
            self.opened = True
        if self.points:
            self.tracker.log(self.points)
            self.points = []

    def _try(self, call: Callable[[], None]) -> bool:
        """Call the tracker; if it raises, warn once, retry later, and return False."""
        try:
            call()
        except Exception as error:
            self.not_before, self.pause = time.monotonic() + self.pause, 2 * self.pause
            if not self.warned:
                self.warned = True
                why = _without_keys(first_line(error))[:200]
                problem = f"tracker '{self.choice.name}' failed ({type(error).__name__}: {why})"
                warnings.warn(MocaWarning(f"run '{self.folder.path}' continues, but {problem}"), stacklevel=2)
            return False
        return True


def _without_keys(text: str) -> str:
    """The text without user names and passwords in URLs."""
    return re.sub(r"(?<=://)[^\s/@]+@", "", text)
