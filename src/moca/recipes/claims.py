"""The paper's claims about the order of methods, each once, tested on our runs, paired by seed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from moca.recipes.matching import Entry
from moca.report.significance import LEVEL, holm, paired
from moca.report.spread import Spread

_TABLES = ("table1", "table2", "table3", "table4")


@dataclass(frozen=True)
class Claim:
    """In the paper, one method is better than another under the same conditions."""

    better: Entry
    worse: Entry
    adjusted: float = math.nan
    """The p-value after Holm's correction for all claims that are tested together."""

    @property
    def paper(self) -> float:
        """The difference in the paper, in points."""
        return self.better.cell.value - self.worse.cell.value

    @property
    def differences(self) -> list[float]:
        """The difference in our runs, in points, for each seed with which both finished."""
        ours, theirs = (
            {str(r.settings.seed): entry.cell.read(r) for r in entry.results if r.finished}
            for entry in (self.better, self.worse)
        )
        return [value - theirs[seed] for seed, value in ours.items() if seed in theirs]

    @property
    def ours(self) -> Spread:
        """Mean and standard deviation of our differences."""
        return Spread.of(self.differences)

    @property
    def p(self) -> float:
        """The p-value of a one-sided paired t-test that the better method is better; NaN for fewer than two seeds."""
        return paired(self.differences, above=True)

    @property
    def tested(self) -> bool:
        """Whether there are enough seeds for a test."""
        return not math.isnan(self.p)

    @property
    def verdict(self) -> str:
        """Whether our runs support the claim, in words."""
        if not self.tested:
            return f"{'same' if self.ours.mean > 0 else 'other'} direction, not tested"
        if self.ours.mean <= 0:
            return "the other way round" if self.p > 1 - LEVEL else "does not show"
        return "holds" if self.p < LEVEL else "same direction, may be chance"


def claims(entries: Iterable[Entry]) -> list[Claim]:
    """All claims of the main tables, in the paper's order, from cells that count; a claim of two tables as it stands in
    the first."""
    shown = [e for e in entries if e.cell.exhibit in _TABLES and e.cell.counts]
    same_conditions: dict[tuple[str, ...], list[Entry]] = {}
    for entry in shown:
        cell = entry.cell
        conditions = (cell.exhibit, cell.setting, cell.data, cell.tasks, cell.learner, cell.memory, cell.metric)
        same_conditions.setdefault(conditions, []).append(entry)
    pairs = [(a, b) for group in same_conditions.values() for a in group for b in group if _compared(a, b)]
    distinct: dict[tuple[str, ...], Claim] = {}
    for better, worse in pairs:
        if (claim := Claim(better, worse)).paper > 0:
            distinct.setdefault((better.identity, worse.identity, better.cell.metric), claim)
    adjusted = holm([claim.p for claim in distinct.values()])
    return [replace(claim, adjusted=p) for claim, p in zip(distinct.values(), adjusted, strict=True)]


def _compared(better: Entry, worse: Entry) -> bool:
    """Whether these are any perturbation against none, or the paper's strongest against the simplest."""
    a, b = better.cell.perturb, worse.cell.perturb
    return (b == "none" and a != "none") or (a, b) == ("wap", "gaussian")


def rows(chosen: Sequence[Claim]) -> tuple[list[str], list[list[str]]]:
    """The measured claims as a table: where, which method over which, the paper's gain, ours, n, p, p after
    Holm's correction and the verdict."""
    head = ["where", "claim", "paper", "ours", "n", "p", "corrected p", "verdict"]
    return head, [_row(claim) for claim in chosen if claim.differences]


def _row(claim: Claim) -> list[str]:
    cell, other = claim.better.cell, claim.worse.cell
    where = f"{cell.exhibit} {cell.where}"
    method = [c.method for c in (cell, other)]
    p = ["" if math.isnan(value) else f"{value:.3f}" for value in (claim.p, claim.adjusted)]
    numbers = [f"{claim.paper:+.2f}", claim.ours.points("+"), str(len(claim.differences))]
    return [where, " over ".join(method), *numbers, *p, claim.verdict]
