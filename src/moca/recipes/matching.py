"""Finds finished runs, and matches them with the paper's cells."""

from __future__ import annotations

import functools
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
from moca.recipes.outcome import REPRODUCED, SEEDS, Outcome, outcome
from moca.report.spread import Spread


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
        # Of runs with one seed, `of` returns the last: the one that recorded most, then the one with precision=auto.
        for result in sorted(self.results, key=lambda r: (len(r.settings.record), r.settings.precision == "auto")):
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

    @property
    def identity(self) -> str:
        """A key that is equal for cells that are read from the same runs."""
        return self.experiment.identity if self.experiment else self.cell.id

    @functools.cached_property
    def values(self) -> list[float]:
        """The cell's metric in each run that finished, accuracies in %."""
        return [self.cell.read(result) for result in self.results if result.finished]

    @property
    def ours(self) -> Spread:
        """Mean and standard deviation of our values."""
        return Spread.of(self.values)

    @property
    def outcome(self) -> Outcome | None:
        """What became of the paper's number; None if it was not measured."""
        cell = self.cell
        return outcome(cell.value, cell.std, self.ours, higher_is_better=cell.in_percent) if self.values else None

    @property
    def reproduced(self) -> bool | None:
        """Whether the paper's number was reproduced; None if it was not measured."""
        return None if self.outcome is None else self.outcome in REPRODUCED

    @property
    def verdict(self) -> str:
        """The same in words, with caveats."""
        if self.waits:
            return "not yet runnable"
        if self.outcome is None:
            return "diverged" if self.results else "to be run"
        few = [f"n = {len(self.values)}"] if len(self.values) < SEEDS else []
        aside = ", ".join(few + ([] if self.cell.counts else [f"{self.cell.status.replace('_', ' ')}, not counted"]))
        return self.outcome + (f" ({aside})" if aside else "")


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
