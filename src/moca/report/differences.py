"""Which differences are reported together, in tables and in words; their p-values are corrected for their number."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from moca.report.methods import Row, Setting
from moca.report.significance import Difference, difference, holm, holm_adjusted
from moca.settings import word

_MOST_PAIRS = 8
"""Most learners that are compared pairwise; if there are more, each is compared only with the best."""


def against_own_learner(setting: Setting) -> list[tuple[Row, Row, Difference]]:
    """Each method with a perturbation, the same learner without it, and the difference between them."""
    pairs = [(row, own) for row in setting.rows if (own := setting.own_learner(row))]
    gains = holm_adjusted([difference(row, own) for row, own in pairs])
    return [(row, own, gain) for (row, own), gain in zip(pairs, gains, strict=True)]


@dataclass(frozen=True)
class Learners:
    """Methods without perturbation that are compared: every pair, or if there are many, each with the best."""

    memory: str
    """Their memory, such as `memory=200`, if those with other memories are compared separately; else empty."""
    rows: list[Row]

    @property
    def pairwise(self) -> bool:
        """Whether every pair is compared."""
        return len(self.rows) <= _MOST_PAIRS

    @functools.cached_property
    def ranked(self) -> list[Row]:
        """The methods that can be tested, best first: those with several seeds or, if fewer than two have them, all."""
        several = [row for row in self.rows if len(row.finished) > 1]
        return sorted(several if len(several) > 1 else self.rows, key=_final, reverse=True)

    @functools.cached_property
    def _adjusted(self) -> dict[frozenset[str], float]:
        best = self.ranked[0]
        with_best = [(best, row) for row in self.rows if row is not best]
        pairs = [*combinations(self.rows, 2)] if self.pairwise else with_best
        adjusted = holm([difference(*pair).p for pair in pairs])
        return {frozenset(row.label for row in pair): p for pair, p in zip(pairs, adjusted, strict=True)}

    @property
    def tests(self) -> int:
        """How many differences could be tested, for which p-values are corrected."""
        return sum(not math.isnan(p) for p in self._adjusted.values())

    def difference(self, ours: Row, theirs: Row) -> Difference:
        """The first method's final accuracy minus the second's."""
        return replace(difference(ours, theirs), adjusted=self._adjusted[frozenset((ours.label, theirs.label))])


def between_learners(setting: Setting) -> list[Learners]:
    """The methods without perturbation, in one group per memory. Joint training, an upper bound, does not compete."""
    plain = [row for row in setting.finished if not (row.perturbed or row.at_once or math.isnan(_final(row)))]
    groups = by_memory(plain)
    if max(map(len, groups.values()), default=0) < 2:
        groups = {"": plain}
    return [Learners(memory, rows) for memory, rows in groups.items() if len(rows) > 1]


def by_memory(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The methods by memory; those without a memory are in every group."""
    using = [row for row in rows if row.run.uses_memory]
    sizes = list(dict.fromkeys(word(row.run.memory) for row in using))
    if len(sizes) < 2:
        return {"": list(rows)}
    return {
        f"memory={size}": [row for row in rows if row not in using or word(row.run.memory) == size] for size in sizes
    }


def _final(row: Row) -> float:
    return row.spread("final_accuracy").mean
