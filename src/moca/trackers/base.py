"""What trackers share: which numbers of a run they are told, and that none of them can cost the run anything."""

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

_RHYTHM = 1.0
"""Seconds between two calls at the least: a fast run does not wait for a slow tracker at every group of steps."""
_PAUSE = 60.0
"""Seconds until a tracker that failed is tried again; each time twice as long."""


@dataclass(frozen=True)
class About:
    """A run as it is introduced to a tracker."""

    name: str
    folder: Path
    settings: dict[str, Any]
    """All of them, flat: `learner.name`, `memory.size`, ..."""
    steps: int
    """Done before; none unless it goes on."""


@dataclass(frozen=True)
class Point:
    """Numbers by name, and the step they belong to."""

    step: int
    numbers: dict[str, float]


class Tracker(Part, Watcher):
    """A watcher that passes a run on to a program of that kind, in three verbs: `open`, `log` and `close`.

    These may fail as they like: what could not be passed on is kept and tried again later, and the run goes on.
    """

    every: int = option(50, "steps that a point of the losses is the mean of", ge=1)

    extra: ClassVar[str] = ""
    """What to install: the extra of that name."""

    def open(self, about: About, run: str | None) -> str:
        """Begin a run over there, or go on with the one that is known by `run`; what it is known by."""
        raise NotImplementedError

    def log(self, points: Sequence[Point]) -> None:
        """Some more numbers."""
        raise NotImplementedError

    def close(self, status: str, last: Point) -> None:
        """The run has ended so, and has these numbers if it has finished."""
        raise NotImplementedError

    def reach(self) -> None:
        """Refuse, by a `MocaError`, what is not installed or does not answer; called once, before anything is done."""

    def library(self, name: str) -> Any:
        """A module that comes with the extra."""
        try:
            return importlib.import_module(name)
        except ImportError as error:
            why = "" if isinstance(error, ModuleNotFoundError) else f" ({first_line(error)})"
            raise MocaError(
                f"track={self.extra} needs the extra {self.extra}{why}: pip install 'moca-cl[{self.extra}]'"
            ) from None

    def begin(self, run: Running) -> None:
        """Introduce the run, or say that it goes on."""
        path = run.folder.path.resolve()
        self.folder = run.folder
        settings = flat(run.settings.model_dump(mode="json", by_alias=True))
        self.about = About(path.name, path, settings, run.steps_done)
        self.width = len(str(len(run.stream)))
        self.opened, self.warned, self.pause, self.not_before = False, False, _PAUSE, 0.0
        self.records: list[StepRecord] = []
        self.points: list[Point] = []
        self._pass_on()

    def steps(self, records: Sequence[StepRecord]) -> None:
        """Means over groups of steps."""
        for record in records:
            self.records.append(record)
            if len(self.records) == self.every:
                self._summarise()
        self._pass_on()

    def task(self, record: TaskRecord) -> None:
        """Accuracies on the tasks learned so far."""
        self._summarise()
        numbers = {"class_il/mean": record.accuracy} if record.tasks else {}
        for kind, accuracies in (("class_il", record.accuracies.class_il), ("task_il", record.accuracies.task_il)):
            for number, value in enumerate(accuracies[: record.tasks], 1):
                numbers[f"{kind}/task_{number:0{self.width}}"] = value
        self._add(record.steps, numbers)
        self._pass_on()

    def end(self, result: Result) -> None:
        """The numbers at the end, and how it ended."""
        self._summarise()
        finished = result.numbers() if result.finished else {}
        numbers = {f"result/{name}": value for name, value in finished.items() if math.isfinite(value)}
        if self._pass_on(now=True):
            self._try(lambda: self.close(result.status, Point(result.steps, numbers)))

    def _summarise(self) -> None:
        """One point for the steps that wait; as many of their losses as are numbers."""
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

    def _pass_on(self, now: bool = False) -> bool:
        """What waits, unless it was told something just now or failed a while ago; whether nothing waits any more."""
        if not now and time.monotonic() < self.not_before:
            return False
        self.not_before = time.monotonic() + _RHYTHM
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

    def _try(self, telling: Callable[[], None]) -> bool:
        try:
            telling()
        except Exception as error:
            self.not_before, self.pause = time.monotonic() + self.pause, 2 * self.pause
            if not self.warned:
                self.warned = True
                name, why = tracking.as_choice(self).name, _without_keys(first_line(error))[:200]
                said = f"run '{self.folder.path}' goes on, but tracker '{name}' failed ({type(error).__name__}: {why})"
                warnings.warn(MocaWarning(said), stacklevel=2)
            return False
        return True


def _without_keys(text: str) -> str:
    """The same with no user and password in the addresses that it names."""
    return re.sub(r"(?<=://)[^\s/@]+@", "", text)


def flat(settings: dict[str, Any], above: str = "") -> dict[str, Any]:
    """Settings within settings by their path: `learner.name`. Several values are one text."""
    made: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, dict):
            made |= flat(value, f"{above}{name}.")
        else:
            made[above + name] = ",".join(map(str, value)) if isinstance(value, list | tuple) else value
    return made
