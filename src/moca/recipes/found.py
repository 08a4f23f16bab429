"""Runs that were done before, wherever they lie: matched with what the paper's cells need, and held against them."""

from __future__ import annotations

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
from moca.report.comparison import Spread

NEAR = 1.5
"""Points below the paper's number that still count as reproduced."""
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
        self.by_identity: dict[str, dict[str, Result]] = {}
        for result in sorted(self.results, key=lambda result: result.settings.precision == "auto"):
            # Of runs that differ in nothing but the precision the one that chose it itself is left.
            self.by_identity.setdefault(identity(result.settings), {})[str(result.settings.seed)] = result

    def of(self, experiment: Experiment) -> dict[str, Result]:
        """Its runs, by seed."""
        return self.by_identity.get(experiment.identity, {})

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

    @property
    def values(self) -> list[float]:
        """In %, a seed each; of runs that finished."""
        return [self.cell.read(result) for result in self.results if result.status == "finished"]

    @property
    def ours(self) -> Spread:
        """Their mean and standard deviation."""
        return Spread.of(self.values)

    @property
    def reproduced(self) -> bool | None:
        """Whether the paper's number was reached; None where nothing was measured."""
        return reached(self.cell.value, self.cell.std, self.ours) if self.values else None

    @property
    def verdict(self) -> str:
        """The same in words, with what weakens it."""
        if self.waits:
            return "not yet runnable"
        if not self.values:
            return "diverged" if self.results else "to be run"
        few = [f"n = {len(self.values)}"] if len(self.values) < SEEDS else []
        aside = ", ".join(few + ([] if self.cell.counts else [f"{self.cell.status.replace('_', ' ')}, not counted"]))
        return ("reproduced" if self.reproduced else "below") + (f" ({aside})" if aside else "")


def reached(paper: float, std: float, ours: Spread) -> bool:
    """At most `NEAR` points below the paper's number, or within two pooled standard deviations of it."""
    known = [spread**2 for spread in (std, ours.std) if not math.isnan(spread)]
    pooled = math.sqrt(sum(known) / len(known)) if known else 0.0
    return ours.mean >= paper - NEAR or abs(ours.mean - paper) <= 2 * pooled


def entries(cells: Iterable[Cell], found: Found) -> list[Entry]:
    """Each cell with the runs that there are of its experiment."""
    made = []
    for cell in cells:
        waits = waits_for(cell)
        own = None if waits else experiment(cell)
        made.append(Entry(cell, own, waits, tuple(found.of(own).values()) if own else ()))
    return made


def experiments(shown: Sequence[Entry]) -> list[Experiment]:
    """What these cells need, each once."""
    needed: dict[str, Experiment] = {}
    for entry in shown:
        if entry.experiment:
            needed.setdefault(entry.experiment.identity, entry.experiment)
    return list(needed.values())
