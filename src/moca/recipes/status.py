"""The status of the paper's reproduction: its cells with our runs, and the runs that are missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from moca.recipes.cells import Cell
from moca.recipes.cost import Pace
from moca.recipes.experiment import Experiment
from moca.recipes.matching import Entry, Found, entries, experiments
from moca.recipes.outcome import REPRODUCED, SEEDS, Outcome


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
