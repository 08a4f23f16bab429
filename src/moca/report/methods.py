"""Methods with their runs, and which of them can be compared."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

from moca.engine.choose import PROBLEM
from moca.engine.result import Result
from moca.errors import MocaError, nearest
from moca.report import grouping
from moca.report.spread import Spread
from moca.settings import Label, Run, word


@dataclass(frozen=True)
class Row:
    """One method of a comparison, with one run per seed."""

    name: Label
    """What the method is called."""
    results: list[Result]
    """Its runs, finished or not."""

    def __repr__(self) -> str:
        return f"Row(label={self.label!r}, results={self.results})"

    @property
    def label(self) -> str:
        """The method's name: learner, perturbation, and the settings in which it differs from the others."""
        return str(self.name)

    @property
    def finished(self) -> list[Result]:
        """The runs that reached their end; all numbers are computed from these."""
        return [r for r in self.results if r.finished]

    @property
    def run(self) -> Run:
        """The settings that its runs share."""
        return self.results[0].settings

    @property
    def perturbed(self) -> bool:
        """Whether the method uses a perturbation."""
        return self.run.perturb.name != "none"

    @functools.cached_property
    def _numbers(self) -> list[dict[str, float]]:
        return [r.numbers() for r in self.finished]

    def values(self, number: str) -> list[float]:
        """A number, such as `final_accuracy`, of each finished run; NaN for a run that lacks it."""
        return [numbers.get(number, math.nan) for numbers in self._numbers]

    def spread(self, number: str) -> Spread:
        """Mean and standard deviation of a number, such as `final_accuracy`, over the finished runs."""
        if self.results and number not in (known := self.results[0].numbers()):
            raise MocaError(f"a result has no number '{number}'; {nearest(number, known)}")
        return Spread.of(self.values(number))

    @property
    def tasks(self) -> int:
        """How many tasks its finished runs learned."""
        return len(self.finished[0].accuracy_matrix[0])

    @property
    def at_once(self) -> bool:
        """Whether it learned several tasks in a single stage, as joint training does."""
        return self.tasks > 1 and len(self.finished[0].accuracy_matrix) == 2

    def over_tasks(self) -> list[Spread]:
        """The accuracy on the tasks learned so far, after each stage."""
        return [Spread.of(values) for values in zip(*(r.accuracy_over_tasks for r in self.finished), strict=True)]

    def matrix(self) -> list[list[Spread | None]]:
        """The accuracy on each task after each stage; None for tasks that were not learned by then."""
        stages = zip(*(r.accuracy_matrix[1:] for r in self.finished), strict=True)
        return [
            [Spread.of(values) if j <= i or self.at_once else None for j, values in enumerate(zip(*rows, strict=True))]
            for i, rows in enumerate(stages)
        ]

    def over_stream(self) -> tuple[list[int], list[Spread]]:
        """Steps at which runs were evaluated within tasks, and the accuracies there; empty if there are none."""
        curves = [r.over_stream for r in self.finished if r.over_stream]
        points = list(zip(*curves, strict=False))  # up to the end of the shortest
        return [int(at[0][0]) for at in points], [Spread.of([accuracy for _, accuracy in at]) for at in points]

    def differences(self, other: Row, number: str) -> list[float]:
        """This method minus another in a number, for each seed with which both finished."""
        theirs = dict(zip((r.settings.seed for r in other.finished), other.values(number), strict=True))
        ours = dict(zip((r.settings.seed for r in self.finished), self.values(number), strict=True))
        pairs = [value - theirs[seed] for seed, value in ours.items() if seed in theirs]
        return [difference for difference in pairs if math.isfinite(difference)]


@dataclass(frozen=True)
class Setting:
    """Methods whose numbers can be compared: they learn the same stream and are evaluated on the same images."""

    title: str
    rows: list[Row]
    chosen: bool = False
    """Whether settings were chosen for each method (`--choose`), so that they may differ from its learner's."""

    @property
    def results(self) -> list[Result]:
        """The runs of all methods."""
        return [r for row in self.rows for r in row.results]

    @property
    def finished(self) -> list[Row]:
        """The methods with at least one finished run."""
        return [row for row in self.rows if row.finished]

    @property
    def judged(self) -> str:
        """The images that methods are evaluated on, in words."""
        return grouping.judged(self.results[0].settings)

    @property
    def held_out(self) -> bool:
        """Whether methods are evaluated on held-out training images instead of test images."""
        return self.results[0].settings.validation > 0

    @property
    def in_print(self) -> dict[str, str]:
        """How papers write the names of the methods."""
        return {row.label: row.name.in_print for row in self.rows}

    @property
    def images(self) -> str:
        """The images that methods are evaluated on, in a few words for an axis label."""
        return "held-out training images" if self.held_out else "test images"

    def own_learner(self, row: Row) -> Row | None:
        """The same method without its perturbation, or None.

        Where settings were chosen for each method, it is the same learner with the settings chosen for that learner.
        """
        if not row.perturbed:
            return None
        plain = [other for other in self.rows if not other.perturbed]
        wanted = grouping.method(row.run, without=("perturb",))
        same = [other for other in plain if grouping.method(other.run, without=("perturb",)) == wanted]
        if same or not self.chosen:
            return same[0] if same else None
        tuned = [other for other in plain if _problem(other.run) == _problem(row.run)]
        return tuned[0] if len(tuned) == 1 else None  # several are left over from an earlier choice: none is its own


def _problem(run: Run) -> list[str]:
    """The learner, and the settings that define its problem and are never tuned, apart from those of the stream."""
    return [
        run.learner.name,
        *(word(getattr(run, name)) for name in PROBLEM if name not in (*grouping.STREAM, "data_dir")),
    ]
