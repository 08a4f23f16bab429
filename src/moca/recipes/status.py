"""The status of the paper's reproduction: its cells next to our runs, and the runs that are missing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from moca.recipes.cells import Cell, columns
from moca.recipes.cost import Pace
from moca.recipes.experiment import Experiment
from moca.recipes.matching import SEEDS, Entry, Found, entries, experiments
from moca.report.spread import Spread


class Standing:
    """The status of some cells: the runs found below `places`, and the seeds that each experiment still needs."""

    NUMBERS = ("paper", "ours", "n", "diff", "verdict", "run")
    """The last columns of a table of cells."""

    def __init__(self, cells: Sequence[Cell], places: Sequence[Path], seeds: int = SEEDS) -> None:
        self.seeds, self.found = seeds, Found(*places)
        self.pace = Pace(self.found.results, *places)
        self.entries = entries(cells, self.found)
        self.numbers = {one.identity: number for number, one in enumerate(experiments(self.entries), 1)}

    def of(self, exhibit: str) -> list[Entry]:
        """The cells of a table or figure."""
        return [entry for entry in self.entries if entry.cell.exhibit == exhibit]

    def missing(self, experiment: Experiment) -> list[int]:
        """The seeds of an experiment that still have to be run."""
        return self.found.missing(experiment, self.seeds)

    def done(self, experiment: Experiment) -> int:
        """How many runs of an experiment serve at least one cell; another cell may need recordings that they lack."""
        own = [entry for entry in self.entries if entry.experiment and entry.experiment.identity == experiment.identity]
        return len({result.folder for entry in own for result in entry.results})

    def wanted(self, shown: Sequence[Entry]) -> list[tuple[Experiment, list[int]]]:
        """The experiments of these cells that lack runs, with the missing seeds."""
        return [(one, seeds) for one in experiments(shown) if (seeds := self.missing(one))]

    def minutes(self, wanted: Sequence[tuple[Experiment, Sequence[int]]]) -> float:
        """About how many minutes these take on a GPU."""
        return sum(len(seeds) * self.pace.seconds(one.run, one.steps) for one, seeds in wanted) / 60

    def sums(self, shown: Sequence[Entry]) -> Sums:
        """Counts of these cells and their runs."""
        wanted, counted = self.wanted(shown), [entry for entry in shown if entry.cell.counts and entry.values]
        return Sums(
            cells=len(shown),
            runnable=sum(entry.experiment is not None for entry in shown),
            measured=sum(bool(entry.values) for entry in shown),
            counted=len(counted),
            reproduced=sum(entry.reproduced is True for entry in counted),
            done=len({result.folder for entry in shown for result in entry.results}),
            missing=sum(len(seeds) for _, seeds in wanted),
            minutes=self.minutes(wanted),
        )

    def rows(self, shown: Sequence[Entry]) -> tuple[list[str], list[list[str]]]:
        """A table as text: what distinguishes the cells, the paper's number, ours, and the number of the experiment."""
        kinds = columns([entry.cell for entry in shown])
        return [*kinds, *self.NUMBERS], [[*_tags(entry.cell, kinds), *self._row(entry)] for entry in shown]

    def _row(self, entry: Entry) -> list[str]:
        cell, ours = entry.cell, entry.ours
        known = not math.isnan(ours.mean)
        number = self.numbers[entry.experiment.identity] if entry.experiment else ""
        return [
            Spread(cell.value, cell.std).points() if cell.in_percent else f"{cell.value:g}",
            _measured(ours, cell.in_percent) if known else "",
            str(len(entry.values) or ""),
            f"{ours.mean - cell.value:+{'.2f' if cell.in_percent else '.2g'}}".replace("-", "\N{MINUS SIGN}")
            if known
            else "",
            entry.verdict,
            str(number),
        ]


def _tags(cell: Cell, kinds: Sequence[str]) -> list[str]:
    """A cell's tags of these kinds, in a readable form."""
    tags = (cell.tags.get(kind, "").removesuffix("+none") for kind in kinds)
    return [tag.replace("accuracy_after_task_", "after task ") for tag in tags]


def _measured(ours: Spread, in_percent: bool) -> str:
    """Mean and deviation; other numbers than accuracies with three and two significant digits."""
    if in_percent:
        return ours.points()
    return f"{ours.mean:.3g}" + ("" if math.isnan(ours.std) else f" ± {ours.std:.2g}")


@dataclass(frozen=True)
class Sums:
    """Counts of cells and runs."""

    cells: int
    runnable: int
    measured: int
    counted: int
    """Claimed cells that were measured."""
    reproduced: int
    """Counted cells that were reproduced."""
    done: int
    """Runs that were done."""
    missing: int
    """Runs that are missing."""
    minutes: float
    """Estimated GPU minutes of the missing runs."""

    HEAD = ("cells", "runnable", "measured", "reproduced of claimed", "runs done", "missing", "GPU minutes")

    @property
    def in_short(self) -> list[str]:
        """Four columns: measured, reproduced, missing runs and their GPU minutes."""
        measured = f"{self.measured} of {self.runnable}" if self.runnable else "not yet"
        left = [f"{self.missing:,}", f"{self.minutes:,.0f}"] if self.missing else ["", ""]
        return [measured, self._reproduced, *left]

    @property
    def _reproduced(self) -> str:
        return f"{self.reproduced} of {self.counted}" if self.counted else ""

    @property
    def texts(self) -> list[str]:
        """A table row with the columns of `HEAD`."""
        numbers = (self.cells, self.runnable, self.measured, self._reproduced, self.done, self.missing)
        return [*(str(number or "") for number in numbers), f"{self.minutes:,.0f}" if self.missing else ""]
