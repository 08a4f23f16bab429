"""What the paper says about the order of methods, put to the test by our runs: seeds are paired."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from moca.recipes.matching import Entry
from moca.report.significance import LEVEL, paired
from moca.report.spread import Spread

_TABLES = ("table1", "table2", "table3", "table4")
_LESS = (("none", "*"), ("gaussian", "wap"))
"""Every perturbation over its own learner, and the paper's strongest over the simplest."""


@dataclass(frozen=True)
class Claim:
    """The paper has one method above another, all else being equal."""

    better: Entry
    worse: Entry

    @property
    def paper(self) -> float:
        """Points between them there."""
        return self.better.cell.value - self.worse.cell.value

    @property
    def differences(self) -> list[float]:
        """Points between ours, for each seed that finished with both."""
        ours, theirs = (
            {str(r.settings.seed): entry.cell.read(r) for r in entry.results if r.finished}
            for entry in (self.better, self.worse)
        )
        return [value - theirs[seed] for seed, value in ours.items() if seed in theirs]

    @property
    def ours(self) -> Spread:
        """Their mean and standard deviation."""
        return Spread.of(self.differences)

    @property
    def p(self) -> float:
        """Of a paired t-test that the better one is not better; NaN for fewer than two seeds."""
        return paired(self.differences, above=True)

    @property
    def verdict(self) -> str:
        """What our seeds say of it."""
        if self.ours.mean <= 0:
            against = not math.isnan(self.p) and self.p > 1 - LEVEL
            return "the other way round" if against else "does not show"
        return "holds" if self.p < LEVEL else "same direction, may be chance"


def claims(entries: Iterable[Entry]) -> list[Claim]:
    """All of the main tables, in the paper's order; of cells that it does not doubt itself."""
    shown = [e for e in entries if e.cell.exhibit in _TABLES and e.cell.counts]
    by_perturbation: dict[tuple[str, ...], list[Entry]] = {}
    for entry in shown:
        cell = entry.cell
        alike = (cell.exhibit, cell.setting, cell.data, cell.tasks, cell.learner, cell.memory, cell.metric)
        by_perturbation.setdefault(alike, []).append(entry)
    pairs = [(a, b) for alike in by_perturbation.values() for a in alike for b in alike if _stronger(a, b)]
    return [claim for better, worse in pairs if (claim := Claim(better, worse)).paper > 0]


def _stronger(better: Entry, worse: Entry) -> bool:
    a, b = better.cell.perturb, worse.cell.perturb
    return a != b and any(b == less and more in ("*", a) for less, more in _LESS)


def rows(chosen: Sequence[Claim]) -> tuple[list[str], list[list[str]]]:
    """Those that were measured as a table: where, what over what, the paper's gain, ours, n, p and the verdict."""
    head = ["where", "claim", "paper", "ours", "n", "p", "verdict"]
    return head, [_row(claim) for claim in chosen if claim.differences]


def _row(claim: Claim) -> list[str]:
    cell, other = claim.better.cell, claim.worse.cell
    where = f"{cell.exhibit} {cell.where}"
    method = [c.method for c in (cell, other)]
    p = "" if math.isnan(claim.p) else f"{claim.p:.3f}"
    numbers = [f"{claim.paper:+.2f}", claim.ours.points("+")]
    return [where, " over ".join(method), *numbers, str(len(claim.differences)), p, claim.verdict]
