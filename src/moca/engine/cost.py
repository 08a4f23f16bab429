"""What it took to carry out a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from moca.engine.result import Result

_LONG = 60.0
"""Seconds that are worth a word of advice."""


@dataclass(frozen=True)
class Cost:
    """Images and time of all runs together; runs that were done before do not count."""

    runs: int
    seconds: float
    """From the first to the last, evaluation included."""
    images: int
    """New and replayed images trained on."""
    packed: int
    """Most runs that shared a GPU at a time."""
    jobs: int
    """Runs that could be carried out at a time."""
    cores: int = 1
    """That as many runs can share; 1 where all are carried out in this process."""

    @classmethod
    def of(cls, results: Sequence[Result], seconds: float, jobs: int, cores: int) -> Cost | None:
        """The cost of these results; None where nothing was left to do."""
        trained = [r for r in results if r.images_this_time]
        if not trained:
            return None
        packed = max(r.environment.get("packed", 1) for r in trained)
        return cls(len(trained), seconds, sum(r.images_this_time for r in trained), packed, jobs, cores)

    @property
    def images_per_second(self) -> float:
        """All runs together."""
        return self.images / self.seconds

    @property
    def advice(self) -> str:
        """How it would have taken less, where several runs took long one after the other and cores were idle."""
        at_a_time = min(self.runs, self.cores)
        if self.jobs > 1 or at_a_time == 1 or self.seconds < _LONG:
            return ""
        return f"One after the other; --jobs {at_a_time} carries out {at_a_time} at a time"

    def numbers(self) -> dict[str, Any]:
        """Every number by name."""
        return asdict(self) | {"images_per_second": self.images_per_second}

    def __str__(self) -> str:
        packed = (
            f", packed by {self.packed}" if self.packed > 1 else f", {self.jobs} at a time" if self.jobs > 1 else ""
        )
        took = f"{self.seconds:,.0f}" if self.seconds >= 10 else f"{self.seconds:.1f}"
        return (
            f"{self.runs} run{'' if self.runs == 1 else 's'} in {took} s{packed}: "
            f"{self.images_per_second:,.0f} images/s in total"
        )
