"""How far two methods are apart, and whether that may be chance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from moca.report.spread import Spread

if TYPE_CHECKING:
    from moca.report.comparison import Row

LEVEL = 0.05
"""Below it a difference is called more than chance."""
FEW = 3
"""Seeds up to which a test sees nothing but large differences."""
_NUMBER = "final_accuracy"
_ROUNDING = 1e-12
"""A deviation of accuracies up to which nothing but rounding tells them apart."""


@dataclass(frozen=True)
class Difference:
    """Of the final accuracies of two methods: the mean, its spread over shared seeds, and what a t-test makes of it."""

    spread: Spread
    """Paired by seed where seeds are shared; else the difference of the means, without a deviation."""
    seeds: tuple[int, int]
    """How many stand behind it, of the one and of the other method."""
    wins: int | None = None
    """Shared seeds with which the first is above; None where seeds are not paired."""
    p: float = math.nan
    """Of the t-test; NaN where a single seed, or no spread at all, leaves nothing to test."""
    adjusted: float = math.nan
    """The same once all differences that it stands among are looked at."""

    @property
    def paired(self) -> bool:
        """Whether the same seeds stand behind both."""
        return self.wins is not None

    @property
    def test(self) -> Literal["paired t", "Welch t", ""]:
        """Which test it was, if there was one."""
        return "" if math.isnan(self.p) else "paired t" if self.paired else "Welch t"

    @property
    def n(self) -> str:
        """Behind how many seeds it stands."""
        return str(self.seeds[0]) if self.paired else f"{self.seeds[0]} and {self.seeds[1]}"

    @property
    def clear(self) -> bool:
        """Whether it is called more than chance."""
        return self.adjusted < LEVEL


def difference(ours: Row, theirs: Row) -> Difference:
    """By how much the first method is above the second in final accuracy."""
    shared = ours.differences(theirs, _NUMBER)
    values = [[v for v in row.values(_NUMBER) if math.isfinite(v)] for row in (ours, theirs)]
    if len(shared) >= 2 or (len(shared) == 1 and min(map(len, values)) == 1):
        return Difference(Spread.of(shared), (len(shared), len(shared)), sum(d > 0 for d in shared), paired(shared))
    if not all(values):
        return Difference(Spread(math.nan, math.nan), (0, 0))
    a, b = (Spread.of(v) for v in values)
    counts = (len(values[0]), len(values[1]))
    return Difference(Spread(a.mean - b.mean, math.nan), counts, p=_welch(a, b, counts))


def holm_adjusted(differences: Sequence[Difference]) -> list[Difference]:
    """Those that are told together, each p adjusted for all of them."""
    chances = holm([d.p for d in differences])
    return [replace(d, adjusted=p) for d, p in zip(differences, chances, strict=True)]


def paired(differences: Sequence[float], above: bool = False) -> float:
    """The p of a t-test that their mean is 0, or with `above` that it is not above 0; NaN where there is no spread."""
    spread = Spread.of(differences)
    if not spread.std > _ROUNDING:
        return math.nan
    p = _two_sided(math.sqrt(len(differences)) * spread.mean / spread.std, len(differences) - 1)
    return p if not above else p / 2 if spread.mean > 0 else 1 - p / 2


def _welch(a: Spread, b: Spread, counts: tuple[int, int]) -> float:
    parts = [spread.std**2 / count for spread, count in zip((a, b), counts, strict=True)]
    if not max(a.std, b.std) > _ROUNDING or min(counts) < 2:
        return math.nan
    total = sum(parts)
    freedom = total**2 / sum(part**2 / (count - 1) for part, count in zip(parts, counts, strict=True))
    return _two_sided((a.mean - b.mean) / math.sqrt(total), freedom)


def _two_sided(t: float, freedom: float) -> float:
    """The chance of a t at least as far from 0."""
    from scipy.special import stdtr

    return float(2 * stdtr(freedom, -abs(t)))


def holm(chances: Sequence[float]) -> list[float]:
    """Each p as it is once all of them are looked at (Holm's step-down); NaN where there was no test."""
    adjusted, most = [math.nan] * len(chances), 0.0
    tested = [place for place, p in enumerate(chances) if not math.isnan(p)]
    for rank, place in enumerate(sorted(tested, key=lambda place: chances[place])):
        most = max(most, min(1.0, (len(tested) - rank) * chances[place]))
        adjusted[place] = most
    return adjusted
