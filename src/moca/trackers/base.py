"""The base class of trackers: it decides which numbers are logged, and keeps failures from harming the run."""

from __future__ import annotations

import importlib
import math
import re
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from moca.engine import tracking
from moca.engine.watch import StepRecord, TaskRecord, Watcher
from moca.errors import MocaError, MocaWarning, first_line
from moca.parts import Part, option

if TYPE_CHECKING:
    from moca.engine.result import Result
    from moca.engine.run import Running

_INTERVAL = 1.0
"""Least seconds between two calls, so that a fast run does not wait for a slow tracker at every group of steps."""
_RETRY_AFTER = 60.0
"""Seconds until a tracker that failed is tried again; doubled after each failure."""


@dataclass(frozen=True)
class About:
    """Description of a run for a tracker."""

    name: str
    folder: Path
    settings: dict[str, Any]
    """All settings, flattened: `learner.name`, `memory.size`, ..."""
    steps: int
    """Steps done before; 0 unless the run is resumed."""


@dataclass(frozen=True)
class Point:
    """Metrics by name, and the step they belong to."""

    step: int
    numbers: dict[str, float]


class Tracker(Part, Watcher):
    """A watcher that sends a run to an experiment tracker. Subclasses define `open`, `log` and `close`.

    These may raise anything: the run continues, and what could not be sent is kept and retried later.
    """

    every: int = option(50, "steps that a point of the losses is the mean of", ge=1)

    extra: ClassVar[str] = ""
    """Name of moca's optional dependency (extra) that the tracker needs."""

    def open(self, about: About, run: str | None) -> str:
        """Start a run in the tracker, or resume the one with the id `run`; return its id."""
        raise NotImplementedError

    def log(self, points: Sequence[Point]) -> None:
        """Send more metrics."""
        raise NotImplementedError

    def close(self, status: str, last: Point) -> None:
        """End the run in the tracker, with its status and, if it finished, its final numbers."""
        raise NotImplementedError

    def reach(self) -> None:
        """Raise a `MocaError` if the tracker is not installed or cannot be reached; called once, before training."""

    def library(self, name: str) -> Any:
        """Import a module that comes with the extra."""
        try:
            return importlib.import_module(name)
        except ImportError as error:
            why = "" if isinstance(error, ModuleNotFoundError) else f" ({first_line(error)})"
            raise MocaError(
                f"track={self.extra} needs the extra {self.extra}{why}: pip install 'moca-cl[{self.extra}]'"
            ) from None

    def begin(self, run: Running) -> None:
        """Start the run in the tracker, or resume it."""
        path = run.folder.path.resolve()
        self.folder = run.folder
        settings = flat(run.settings.model_dump(mode="json", by_alias=True))
        self.about = About(path.name, path, settings, run.steps_done)
        self.width = len(str(len(run.stream)))
        self.opened, self.warned, self.pause, self.not_before = False, False, _RETRY_AFTER, 0.0
        self.records: list[StepRecord] = []
        self.points: list[Point] = []
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
            self._try(lambda: self.close(result.status, Point(result.steps, numbers)))

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
            tracked = tracking.as_choice(self)
            run = self.open(self.about, tracking.known_by(self.folder, tracked))
            tracking.keep(self.folder, tracked, run)
            self.opened = True
        if self.points:
            self.log(self.points)
            self.points = []

    def _try(self, call: Callable[[], None]) -> bool:
        """Call a function of the tracker; if it raises, warn once, retry later, and return False."""
        try:
            call()
        except Exception as error:
            self.not_before, self.pause = time.monotonic() + self.pause, 2 * self.pause
            if not self.warned:
                self.warned = True
                name, why = tracking.as_choice(self).name, _without_keys(first_line(error))[:200]
                problem = f"tracker '{name}' failed ({type(error).__name__}: {why})"
                warnings.warn(MocaWarning(f"run '{self.folder.path}' continues, but {problem}"), stacklevel=2)
            return False
        return True


def _without_keys(text: str) -> str:
    """The text without user names and passwords in URLs."""
    return re.sub(r"(?<=://)[^\s/@]+@", "", text)


def flat(settings: dict[str, Any], above: str = "") -> dict[str, Any]:
    """Flatten nested settings to paths such as `learner.name`. Lists become one comma-separated text."""
    flattened: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, dict):
            flattened |= flat(value, f"{above}{name}.")
        else:
            flattened[above + name] = ",".join(map(str, value)) if isinstance(value, list | tuple) else value
    return flattened
