"""Runs that were done before, wherever they lie: matched with what the paper's cells need, and held against them."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from moca.engine.folder import RESULT
from moca.engine.listing import run_folders
from moca.engine.result import Result
from moca.errors import MocaError
from moca.recipes.cells import Cell
from moca.recipes.experiment import Experiment, experiment, identity, waits_for
from moca.recipes.metrics import has
from moca.report.spread import Spread

NEAR = 1.5
"""Points below the paper's number that still count as reproduced."""
TENTH = 0.1
"""Of the paper's number, for one that is no accuracy."""
SEEDS = 3
"""As many as the paper has."""


class Found:
    """The runs that ended, in all folders below some."""

    def __init__(self, *places: Path) -> None:
        self.results: list[Result] = []
        self.unreadable: list[str] = []
        for path in sorted(run_folders(*(place for place in places if place.is_dir()))):
            if (path / RESULT).is_file():
                try:
                    self.results.append(Result.load(path))
                except MocaError as error:
                    self.unreadable.append(str(error))
        self.by_identity: dict[str, list[Result]] = {}
        for result in sorted(self.results, key=lambda result: result.settings.precision == "auto"):
            # Of runs that differ in nothing but the precision the one that chose it itself is left.
            self.by_identity.setdefault(identity(result.settings), []).append(result)

    def of(self, experiment: Experiment) -> dict[str, Result]:
        """Its runs, by seed; of those that finished, the ones that have what it records."""
        return {
            str(result.settings.seed): result
            for result in self.by_identity.get(experiment.identity, ())
            if not result.finished or has(result, experiment.given.record)
        }

    def missing(self, experiment: Experiment, seeds: int) -> list[int]:
        """The seeds that are still to be run for so many; one that diverged need not be run again."""
        done = self.of(experiment)
        return [seed for seed in range(seeds) if str(seed) not in done][: max(0, seeds - len(done))]


@dataclass(frozen=True)
class Entry:
    """A cell beside what we measured."""

    cell: Cell
    experiment: Experiment | None
    waits: str
    """Why there is no experiment yet."""
    results: tuple[Result, ...] = ()

    @functools.cached_property
    def values(self) -> list[float]:
        """Accuracies in %, a seed each; of runs that finished."""
        return [self.cell.read(result) for result in self.results if result.finished]

    @property
    def ours(self) -> Spread:
        """Their mean and standard deviation."""
        return Spread.of(self.values)

    @property
    def reproduced(self) -> bool | None:
        """Whether the paper's number was reached; None where nothing was measured."""
        if not self.values:
            return None
        return (reached if self.cell.in_percent else alike)(self.cell.value, self.cell.std, self.ours)

    @property
    def verdict(self) -> str:
        """The same in words, with what weakens it."""
        if self.waits:
            return "not yet runnable"
        if not self.values:
            return "diverged" if self.results else "to be run"
        few = [f"n = {len(self.values)}"] if len(self.values) < SEEDS else []
        aside = ", ".join(few + ([] if self.cell.counts else [f"{self.cell.status.replace('_', ' ')}, not counted"]))
        short = "below" if self.cell.in_percent else "differs"
        return ("reproduced" if self.reproduced else short) + (f" ({aside})" if aside else "")


def reached(paper: float, std: float, ours: Spread) -> bool:
    """At most `NEAR` points below the paper's number, or within two pooled standard deviations of it."""
    return ours.mean >= paper - NEAR or abs(ours.mean - paper) <= 2 * _pooled(std, ours.std)


def alike(paper: float, std: float, ours: Spread) -> bool:
    """Of a number that is not better the higher it is: at most a tenth of the paper's away from it, or within two
    pooled standard deviations."""
    return abs(ours.mean - paper) <= max(TENTH * abs(paper), 2 * _pooled(std, ours.std))


def _pooled(*spreads: float) -> float:
    known = [spread**2 for spread in spreads if not math.isnan(spread)]
    return math.sqrt(sum(known) / len(known)) if known else 0.0


def entries(cells: Iterable[Cell], found: Found) -> list[Entry]:
    """Each cell with the runs that there are of its experiment."""
    made = []
    for cell in cells:
        waits = waits_for(cell)
        own = None if waits else experiment(cell)
        made.append(Entry(cell, own, waits, tuple(found.of(own).values()) if own else ()))
    return made


def experiments(shown: Sequence[Entry]) -> list[Experiment]:
    """What these cells need, each once; where one of them has to be recorded, as that one has it."""
    needed: dict[str, Experiment] = {}
    for own in (entry.experiment for entry in shown if entry.experiment):
        if own.identity not in needed or len(own.given.record) > len(needed[own.identity].given.record):
            needed[own.identity] = own
    return list(needed.values())
