"""The status of the paper's reproduction: its cells next to our runs, and the runs that are missing."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from moca.recipes.cells import Cell, columns
from moca.recipes.cost import Pace
from moca.recipes.experiment import Experiment, departures
from moca.recipes.matching import Entry, Found, entries, experiments
from moca.recipes.metrics import in_words
from moca.recipes.outcome import REPRODUCED, SEEDS, Outcome
from moca.report.spread import Spread
from moca.wording import counted


class Standing:
    """The status of some cells: the runs found below `places`, and the seeds that each experiment still needs."""

    def __init__(self, cells: Sequence[Cell], places: Sequence[Path], seeds: int = SEEDS) -> None:
        self.seeds, self.found = seeds, Found(*places)
        self.pace = Pace(self.found.results, *places)
        self.entries = entries(cells, self.found)

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

    def wanted(self, shown: Sequence[Entry], record: Sequence[str] = ()) -> list[tuple[Experiment, list[int]]]:
        """The experiments of these cells that lack runs, or runs that record this as well, with the missing seeds."""
        needed = [one.recording(record) for one in experiments(shown)]
        return [(one, seeds) for one in needed if (seeds := self.missing(one))]

    def minutes(self, wanted: Sequence[tuple[Experiment, Sequence[int]]]) -> float:
        """About how many minutes these take on a GPU."""
        return sum(len(seeds) * self.pace.seconds(one.run, one.steps) for one, seeds in wanted) / 60

    def sums(self, shown: Sequence[Entry]) -> Sums:
        """Counts of these cells and their runs."""
        wanted = self.wanted(shown)
        return Sums(
            runnable=sum(entry.experiment is not None for entry in shown),
            measured=sum(bool(entry.values) for entry in shown),
            outcomes=Counter(entry.outcome for entry in shown if entry.cell.counts and entry.outcome),
            missing=sum(len(seeds) for _, seeds in wanted),
            minutes=self.minutes(wanted),
        )


NUMBERS = ("paper", "ours", "n", "diff", "verdict", "run")
"""The last columns of a table of cells."""


def rows(shown: Sequence[Entry], runs: Sequence[Experiment]) -> tuple[list[str], list[list[str]]]:
    """A table as text: what distinguishes the cells, the paper's number, ours, and the place of the experiment among
    `runs`, from 1."""
    kinds = columns([entry.cell for entry in shown])
    numbers = {one.identity: str(number) for number, one in enumerate(runs, 1)}
    return [*kinds, *NUMBERS], [[*(tag(entry.cell, kind) for kind in kinds), *_row(entry, numbers)] for entry in shown]


def _row(entry: Entry, numbers: Mapping[str, str]) -> list[str]:
    cell, ours = entry.cell, entry.ours
    known = not math.isnan(ours.mean)
    return [
        Spread(cell.value, cell.std).points() if cell.in_percent else f"{cell.value:g}",
        _measured(ours, cell.in_percent) if known else "",
        str(len(entry.values) or ""),
        f"{ours.mean - cell.value:+{'.2f' if cell.in_percent else '.2g'}}".replace("-", "\N{MINUS SIGN}")
        if known
        else "",
        entry.verdict,
        numbers[entry.experiment.identity] if entry.experiment else "",
    ]


def tag(cell: Cell, kind: str) -> str:
    """A cell's tag of this kind for readers, with the value that it is run with, if that is another."""
    if kind == "metric":
        return in_words(cell.metric)
    here = f" (here {departures(cell)[kind][0]:g})" if kind in departures(cell) else ""
    return cell.tags.get(kind, "").removesuffix("+none") + here


def waiting(shown: Sequence[Entry]) -> list[str]:
    """Why some of these cells cannot be run yet."""
    reasons = Counter(entry.waits for entry in shown if entry.waits)
    return [f"Not yet runnable, {counted(count, 'cell')}: {why}." for why, count in reasons.items()]


def notes(shown: Sequence[Entry]) -> list[str]:
    """The remarks on these cells, each once, with the number of cells that it is on."""
    found = Counter(note for entry in shown for note in entry.cell.note.split("; ") if note)
    return [f"{note} ({counted(count, 'cell')})" for note, count in found.items()]


def departed(shown: Sequence[Entry]) -> list[str]:
    """Which perturbations are run with other options than the paper prints, each once, and why."""
    texts = (
        f"{entry.cell.perturb} is run with {name} {value:g} instead of {entry.cell.facts[name]}: {why}"
        for entry in shown
        for name, (value, why) in departures(entry.cell).items()
    )
    return list(dict.fromkeys(texts))


def _measured(ours: Spread, in_percent: bool) -> str:
    """Mean and deviation; other numbers than accuracies with three and two significant digits."""
    if in_percent:
        return ours.points()
    return f"{ours.mean:.3g}" + ("" if math.isnan(ours.std) else f" ± {ours.std:.2g}")


@dataclass(frozen=True)
class Sums:
    """Counts of cells and runs."""

    runnable: int
    measured: int
    outcomes: Counter[Outcome]
    """What became of the measured cells that the paper claims."""
    missing: int
    """Runs that are missing."""
    minutes: float
    """Estimated GPU minutes of the missing runs."""

    @property
    def counted(self) -> int:
        """Claimed cells that were measured."""
        return self.outcomes.total()

    @property
    def near(self) -> int:
        """Counted cells whose number is near the paper's."""
        return self.outcomes[REPRODUCED[0]]

    @property
    def reproduced(self) -> int:
        """Counted cells that were reproduced."""
        return sum(self.outcomes[one] for one in REPRODUCED)

    @property
    def texts(self) -> list[str]:
        """Five columns: measured, near the paper's number, reproduced, missing runs and their GPU minutes."""
        measured = f"{self.measured} of {self.runnable}" if self.runnable else "not yet"
        reproduced = [str(self.near), f"{self.reproduced} of {self.counted}"] if self.counted else ["", ""]
        left = [f"{self.missing:,}", f"{self.minutes:,.0f}"] if self.missing else ["", ""]
        return [measured, *reproduced, *left]
