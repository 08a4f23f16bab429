"""The cost of a comparison: time and images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from moca.engine.result import Result
from moca.wording import counted

_LONG = 60.0
"""Seconds from which advice on speeding up is given."""


@dataclass(frozen=True)
class Cost:
    """Images and time of all runs together, without runs that were done before."""

    runs: int
    seconds: float
    """Wall-clock time of the comparison, including evaluation."""
    images: int
    """New and replayed images trained on."""
    packed: int
    """Most runs that shared a GPU at a time."""
    jobs: int
    """How many runs could go at a time."""
    cores: int = 1
    """Cores available to parallel runs; 1 if all runs are carried out in this process."""

    @classmethod
    def of(cls, results: Sequence[Result], seconds: float, jobs: int, cores: int) -> Cost | None:
        """The cost of these results; None if nothing was trained."""
        trained = [r for r in results if r.images_this_time]
        if not trained:
            return None
        packed = max(r.environment.get("packed", 1) for r in trained)
        return cls(len(trained), seconds, sum(r.images_this_time for r in trained), packed, jobs, cores)

    @property
    def images_per_second(self) -> float:
        """Images per second of all runs together."""
        return self.images / self.seconds

    @property
    def advice(self) -> str:
        """A hint to use `jobs`, if several runs took long one after the other while cores were idle."""
        at_a_time = min(self.runs, self.cores)
        if self.jobs > 1 or at_a_time == 1 or self.seconds < _LONG:
            return ""
        return f"One after the other; jobs={at_a_time} carries out {at_a_time} at a time"

    def numbers(self) -> dict[str, Any]:
        """Every number by name."""
        return asdict(self) | {"images_per_second": self.images_per_second}

    def __str__(self) -> str:
        packed = (
            f", packed by {self.packed}" if self.packed > 1 else f", {self.jobs} at a time" if self.jobs > 1 else ""
        )
        took = f"{self.seconds:,.0f}" if self.seconds >= 10 else f"{self.seconds:.1f}"
        return f"{counted(self.runs, 'run')} in {took} s{packed}: {self.images_per_second:,.0f} images/s in total"
