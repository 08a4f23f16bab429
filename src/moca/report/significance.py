"""The difference between two methods, and whether it may be chance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from moca.report.methods import Row
from moca.report.spread import Spread

LEVEL = 0.05
"""Significance level: a difference with a p-value below it is called more than chance."""
FEW = 3
"""With at most this many seeds, a test can detect only large differences."""
_NUMBER = "final_accuracy"
ROUNDING = 1e-12
"""Difference up to which accuracies, which are shares, differ only by rounding; also their standard deviation."""


@dataclass(frozen=True)
class Difference:
    """The difference between the final accuracies of two methods, and the result of a t-test."""

    spread: Spread
    """Over pairs of runs with the same seed, if there are enough; else the difference of the means, no deviation."""
    seeds: tuple[int, int]
    """Number of seeds of the first and of the second method."""
    wins: int | None = None
    """Number of shared seeds with which the first is higher; None if seeds are not paired."""
    p: float = math.nan
    """p-value of the t-test; NaN if there is nothing to test: a single seed, or no spread at all."""
    adjusted: float = math.nan
    """The p-value after Holm's correction for all differences that are reported together."""

    @property
    def paired(self) -> bool:
        """Whether the runs are paired by seed."""
        return self.wins is not None

    @property
    def test(self) -> Literal["paired t", "Welch t", ""]:
        """Which test was used; empty if there was none."""
        return "" if math.isnan(self.p) else "paired t" if self.paired else "Welch t"

    @property
    def n(self) -> str:
        """The number of seeds: one number if they are paired, else those of both methods."""
        return str(self.seeds[0]) if self.paired else f"{self.seeds[0]} and {self.seeds[1]}"

    @property
    def higher(self) -> bool:
        """Whether the first method's mean is higher, by more than rounding."""
        return self.spread.mean > ROUNDING

    @property
    def level(self) -> bool:
        """Whether both means are the same, apart from rounding."""
        return abs(self.spread.mean) <= ROUNDING

    @property
    def clear(self) -> bool:
        """Whether the difference is significant, that is, called more than chance."""
        return self.adjusted < LEVEL


def difference(ours: Row, theirs: Row) -> Difference:
    """The first method's final accuracy minus the second's, with a paired or Welch's t-test."""
    shared = ours.differences(theirs, _NUMBER)
    values = [[v for v in row.values(_NUMBER) if math.isfinite(v)] for row in (ours, theirs)]
    if len(shared) >= 2 or (len(shared) == 1 and min(map(len, values)) == 1):
        return Difference(
            Spread.of(shared), (len(shared), len(shared)), sum(d > ROUNDING for d in shared), paired(shared)
        )
    if not all(values):
        return Difference(Spread(math.nan, math.nan), (0, 0))
    a, b = (Spread.of(v) for v in values)
    counts = (len(values[0]), len(values[1]))
    return Difference(Spread(a.mean - b.mean, math.nan), counts, p=_welch(a, b, counts))


def holm_adjusted(differences: Sequence[Difference]) -> list[Difference]:
    """Differences that are reported together, with p-values adjusted for their number."""
    adjusted = holm([d.p for d in differences])
    return [replace(d, adjusted=p) for d, p in zip(differences, adjusted, strict=True)]


def paired(differences: Sequence[float], above: bool = False) -> float:
    """p-value of a t-test against a mean of 0, or with `above`, of at most 0; NaN if there is no spread."""
    spread = Spread.of(differences)
    if not spread.std > ROUNDING:
        return math.nan
    p = _two_sided(math.sqrt(len(differences)) * spread.mean / spread.std, len(differences) - 1)
    return p if not above else p / 2 if spread.mean > 0 else 1 - p / 2


def _welch(a: Spread, b: Spread, counts: tuple[int, int]) -> float:
    parts = [spread.std**2 / count for spread, count in zip((a, b), counts, strict=True)]
    if not max(a.std, b.std) > ROUNDING or min(counts) < 2:
        return math.nan
    total = sum(parts)
    freedom = total**2 / sum(part**2 / (count - 1) for part, count in zip(parts, counts, strict=True))
    return _two_sided((a.mean - b.mean) / math.sqrt(total), freedom)


def _two_sided(t: float, freedom: float) -> float:
    """Two-sided p-value of a t statistic."""
    from scipy.special import stdtr

    return float(2 * stdtr(freedom, -abs(t)))


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values adjusted for multiple tests by Holm's step-down method; NaN where there was no test."""
    adjusted, most = [math.nan] * len(p_values), 0.0
    tested = [place for place, p in enumerate(p_values) if not math.isnan(p)]
    for rank, place in enumerate(sorted(tested, key=lambda place: p_values[place])):
        most = max(most, min(1.0, (len(tested) - rank) * p_values[place]))
        adjusted[place] = most
    return adjusted
