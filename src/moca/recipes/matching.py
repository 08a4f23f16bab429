"""Finds finished runs, matches them with the paper's cells, and compares their numbers."""

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
"""An accuracy at most this many points below the paper's counts as reproduced."""
TENTH = 0.1
"""The relative difference up to which a number that is not an accuracy counts as reproduced."""
SEEDS = 3
"""The paper's number of seeds."""


class Found:
    """The finished and diverged runs in all folders below `places`."""

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
            # Of runs that differ only in precision, `of` returns the last one: the one with precision=auto.
            self.by_identity.setdefault(identity(result.settings), []).append(result)

    def of(self, experiment: Experiment) -> dict[str, Result]:
        """The runs of an experiment by seed, without finished ones that lack its recordings."""
        return {
            str(result.settings.seed): result
            for result in self.by_identity.get(experiment.identity, ())
            if not result.finished or has(result, experiment.given.record)
        }

    def missing(self, experiment: Experiment, seeds: int) -> list[int]:
        """The seeds that still have to be run to have `seeds` of them; runs that diverged are not repeated."""
        done = self.of(experiment)
        return [seed for seed in range(seeds) if str(seed) not in done][: max(0, seeds - len(done))]


@dataclass(frozen=True)
class Entry:
    """A cell with our runs of its experiment."""

    cell: Cell
    experiment: Experiment | None
    waits: str
    """Why there is no experiment yet; empty if there is one."""
    results: tuple[Result, ...] = ()

    @functools.cached_property
    def values(self) -> list[float]:
        """The cell's metric in each run that finished, accuracies in %."""
        return [self.cell.read(result) for result in self.results if result.finished]

    @property
    def ours(self) -> Spread:
        """Mean and standard deviation of our values."""
        return Spread.of(self.values)

    @property
    def reproduced(self) -> bool | None:
        """Whether the paper's number was reproduced; None if it was not measured."""
        if not self.values:
            return None
        return (reached if self.cell.in_percent else alike)(self.cell.value, self.cell.std, self.ours)

    @property
    def verdict(self) -> str:
        """The same in words, with caveats."""
        if self.waits:
            return "not yet runnable"
        if not self.values:
            return "diverged" if self.results else "to be run"
        few = [f"n = {len(self.values)}"] if len(self.values) < SEEDS else []
        aside = ", ".join(few + ([] if self.cell.counts else [f"{self.cell.status.replace('_', ' ')}, not counted"]))
        short = "below" if self.cell.in_percent else "differs"
        return ("reproduced" if self.reproduced else short) + (f" ({aside})" if aside else "")


def reached(paper: float, std: float, ours: Spread) -> bool:
    """Whether our mean is at most `NEAR` points below the paper's, or within two pooled standard deviations of it."""
    return ours.mean >= paper - NEAR or abs(ours.mean - paper) <= 2 * _pooled(std, ours.std)


def alike(paper: float, std: float, ours: Spread) -> bool:
    """Whether our mean is within a tenth of the paper's number or two pooled standard deviations; for metrics where
    higher is not better."""
    return abs(ours.mean - paper) <= max(TENTH * abs(paper), 2 * _pooled(std, ours.std))


def _pooled(*spreads: float) -> float:
    known = [spread**2 for spread in spreads if not math.isnan(spread)]
    return math.sqrt(sum(known) / len(known)) if known else 0.0


def entries(cells: Iterable[Cell], found: Found) -> list[Entry]:
    """Each cell with the runs that were found of its experiment."""
    made = []
    for cell in cells:
        waits = waits_for(cell)
        own = None if waits else experiment(cell)
        made.append(Entry(cell, own, waits, tuple(found.of(own).values()) if own else ()))
    return made


def experiments(shown: Sequence[Entry]) -> list[Experiment]:
    """The experiments of these cells, each once; of several that differ in `record`, the one that records most."""
    needed: dict[str, Experiment] = {}
    for own in (entry.experiment for entry in shown if entry.experiment):
        if own.identity not in needed or len(own.given.record) > len(needed[own.identity].given.record):
            needed[own.identity] = own
    return list(needed.values())
