"""The base class of trackers, and what they are told."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from moca.errors import MocaError, first_line
from moca.parts import Part, option


@dataclass(frozen=True)
class About:
    """Description of a run for a tracker."""

    name: str
    folder: Path
    settings: dict[str, Any]
    """All settings by their paths: `learner.name`, `memory.size`, ...; several values as one text."""
    steps: int
    """Steps done before; 0 unless the run is resumed."""


@dataclass(frozen=True)
class Point:
    """Metrics by name, and the step they belong to."""

    step: int
    numbers: dict[str, float]


class Tracker(Part):
    """Sends a run to an experiment tracker. Subclasses define `open`, `log` and `close`.

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
