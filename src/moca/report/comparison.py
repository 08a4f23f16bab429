"""Runs side by side: mean and standard deviation over seeds."""

from __future__ import annotations

import csv
import functools
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.box import SIMPLE
from rich.console import Console, Group
from rich.table import Column as TableColumn
from rich.table import Table
from rich.text import Text

from moca.atomic import whole
from moca.engine.choose import PROBLEM
from moca.engine.cost import Cost
from moca.engine.first_task import SHARED, SHARED_IN_SHORT
from moca.engine.result import Result, null_if_nan
from moca.errors import MocaError, nearest
from moca.report import grouping, tidy
from moca.report.loading import load
from moca.report.spread import Spread
from moca.settings import Run, word

CHOSEN = "chosen.json"
"""The file that says what was chosen, in the folder of a comparison that chose settings before it tested them."""


@dataclass(frozen=True)
class Row:
    """One method of a comparison: all its runs, a seed each."""

    label: str
    """What the method is called: learner, perturbation, and settings in which it differs from others."""
    results: list[Result]
    """Its runs."""

    @property
    def finished(self) -> list[Result]:
        """Only runs that reached the end count."""
        return [r for r in self.results if r.finished]

    @property
    def run(self) -> Run:
        """The settings that its runs share."""
        return self.results[0].settings

    @property
    def perturbed(self) -> bool:
        """Whether a perturbation takes part."""
        return self.run.perturb.name != "none"

    @functools.cached_property
    def _numbers(self) -> list[dict[str, float]]:
        return [r.numbers() for r in self.finished]

    def values(self, number: str) -> list[float]:
        """One of the numbers of each run that finished; NaN where it has none."""
        return [numbers.get(number, math.nan) for numbers in self._numbers]

    def spread(self, number: str) -> Spread:
        """Mean and deviation of one of the numbers of a result."""
        if self.results and number not in (known := self.results[0].numbers()):
            raise MocaError(f"a result has no number '{number}'; {nearest(number, known)}")
        return Spread.of(self.values(number))

    @property
    def over_stream(self) -> tuple[list[int], list[list[float]]]:
        """Steps at which its runs were evaluated on the way, and the accuracies of each there; empty where none was."""
        looks = [r.over_stream for r in self.finished if r.over_stream]
        count = min(map(len, looks), default=0)
        steps = [int(step) for step, _ in looks[0][:count]] if looks else []
        return steps, [[accuracy for _, accuracy in one[:count]] for one in looks]

    def differences(self, other: Row, number: str) -> list[float]:
        """How far this method is above another, for each seed that both finished with and that has the number."""
        theirs = dict(zip((r.settings.seed for r in other.finished), other.values(number), strict=True))
        ours = dict(zip((r.settings.seed for r in self.finished), self.values(number), strict=True))
        pairs = [value - theirs[seed] for seed, value in ours.items() if seed in theirs]
        return [difference for difference in pairs if math.isfinite(difference)]


@dataclass(frozen=True)
class Setting:
    """Methods that can be held against each other: they learn one stream and are judged on the same images."""

    title: str
    rows: list[Row]
    chosen: bool = False
    """Whether each method has the settings that were chosen for it, which may then differ from its learner's."""

    @property
    def results(self) -> list[Result]:
        """All runs."""
        return [r for row in self.rows for r in row.results]

    @property
    def finished(self) -> list[Row]:
        """Methods of which a run reached the end."""
        return [row for row in self.rows if row.finished]

    @property
    def judged(self) -> str:
        """The images behind the numbers."""
        return grouping.judged(self.results[0].settings)

    @property
    def held_out(self) -> bool:
        """Whether these are training images."""
        return self.results[0].settings.validation > 0

    @property
    def images(self) -> str:
        """The same in the few words that an axis has room for."""
        return "held-out training images" if self.held_out else "test images"

    def own_learner(self, row: Row) -> Row | None:
        """The method that differs from this one in nothing but its having no perturbation; where settings were chosen
        for each, the same learner with those chosen for it."""
        if not row.perturbed:
            return None
        plain = [other for other in self.rows if not other.perturbed]
        wanted = grouping.method(row.run, without=("perturb",))
        same = [other for other in plain if grouping.method(other.run, without=("perturb",)) == wanted]
        if same or not self.chosen:
            return same[0] if same else None
        at_best = [other for other in plain if _asked(other.run) == _asked(row.run)]
        return at_best[0] if len(at_best) == 1 else None  # of several, which an earlier choice left, none is its own


class Comparison:
    """Results side by side, a row for each method: of `moca compare`, or of any runs that were done before."""

    def __init__(
        self,
        results: Sequence[tuple[str, Result]],
        folder: Path,
        cost: Cost | None = None,
        left_out: Sequence[str] = (),
        chosen: bool = False,
    ) -> None:
        self.folder, self.cost = folder.absolute(), cost
        self.left_out = list(left_out)
        """Runs that were found but cannot be compared, each with the reason."""
        self.settings = _apart(results, chosen)
        """Its methods in groups: those apart that learn another stream or are judged on other images."""

    @classmethod
    def load(cls, folders: str | Path | Sequence[str | Path]) -> Comparison:
        """All runs in some folders that have ended, of whatever depth, whatever made them; of those that diverged
        there is no number, but `Row.results` has them.

        Those that are not finished, cannot be read or are there twice are left out; `left_out` names them.
        """
        several = [folders] if isinstance(folders, str | Path) else list(folders)
        if not several:
            raise MocaError("give at least one folder of runs")
        labelled, left_out = load([Path(place) for place in several])
        chosen = len(several) == 1 and (Path(several[0]) / CHOSEN).is_file()
        return cls(labelled, Path(several[0]) if len(several) == 1 else Path(), left_out=left_out, chosen=chosen)

    @property
    def results(self) -> list[Result]:
        """All runs."""
        return [r for row in self.rows for r in row.results]

    @property
    def rows(self) -> list[Row]:
        """All methods; those of one name in several settings are told apart."""
        names = Counter(row.label for setting in self.settings for row in setting.rows)
        return [
            Row(f"{row.label} ({setting.title})", row.results) if names[row.label] > 1 else row
            for setting in self.settings
            for row in setting.rows
        ]

    @property
    def mistakes(self) -> list[str]:
        """Which runs could not be done, and why."""
        return [f"{r.folder.name}: {r.message}" for r in self.results if r.status == "failed"]

    def __getitem__(self, label: str) -> Row:
        """The method of that name."""
        rows = {row.label: row for row in self.rows}
        if label not in rows:
            raise MocaError(f"no method '{label}' was compared; {nearest(str(label), rows)}")
        return rows[label]

    def __iter__(self) -> Iterator[str]:
        """The names of the methods."""
        return (row.label for row in self.rows)

    def __rich__(self) -> Group:
        """Mean and standard deviation of each method, a table for each setting, and what the differences say; if there
        are several, each has a heading."""
        from moca.report.verdict import verdict

        parts: list[Text | Table] = []
        for setting in self.settings:
            parts += [Text(setting.title, "bold")] * (len(self.settings) > 1)
            parts.append(_table(setting))
            parts += [Text(f"{said}\n")] if (said := verdict(setting)) else []
        return Group(*parts)

    def __str__(self) -> str:
        plain = Console(width=120, color_system=None, force_jupyter=False)
        with plain.capture() as shown:
            plain.print(self)
        return shown.get().rstrip()

    __repr__ = __str__

    def save(self, folder: str | Path | None = None) -> None:
        """Write runs.csv, a line a run; tidy.csv (and tidy.parquet where pyarrow is), a line for each run, task and
        number; comparison.json, an entry a method; and cost.json, if runs were done now."""
        folder = Path(folder or self.folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._write(folder)
        except OSError as error:
            raise MocaError(
                f"tables cannot be written to '{folder}': {error.strerror}; choose another folder"
            ) from None

    def _write(self, folder: Path) -> None:
        numbers = list(dict.fromkeys(name for result in self.results for name in result.numbers()))
        with (
            whole(folder / "runs.csv") as path,
            path.open("w", newline="", encoding="utf-8", errors="replace") as file,
        ):
            writer = csv.writer(file)
            if self.results:
                writer.writerow(["method", "seed", "status", *numbers, "folder"])
            for label, result in ((row.label, r) for row in self.rows for r in row.results):
                known = result.numbers()
                values = [known.get(name, math.nan) for name in numbers]
                writer.writerow([label, result.settings.seed, result.status, *values, result.folder.name])
        tidy.write(self, folder)
        with whole(folder / "comparison.json") as path:
            path.write_text(json.dumps([_entry(row) for row in self.rows], indent=2) + "\n")
        if self.cost:
            with whole(folder / "cost.json") as path:
                path.write_text(json.dumps(self.cost.numbers(), indent=2) + "\n")


def notes(rows: Sequence[Row]) -> dict[str, list[str]]:
    """Each note about runs of these methods, with the methods that it is about; and with how many of its seeds, where
    that is not all of them."""
    found: dict[str, list[str]] = {}
    for row in rows:
        told = Counter(
            SHARED_IN_SHORT if note.startswith(SHARED) else note for result in row.results for note in result.notes
        )
        for note, count in told.items():
            some = f" ({count} of {len(row.results)} seeds)" if count < len(row.results) else ""
            found.setdefault(note, []).append(row.label + some)
    return found


def _table(setting: Setting) -> Table:
    columns = {"final_accuracy": "final accuracy", "forgetting": "forgetting"}
    method = TableColumn("method", overflow="fold")
    where = ", on held-out images" * setting.held_out
    single = all(len(row.finished) <= 1 for row in setting.rows)
    what = "of a single seed" if single else "mean ± standard deviation"
    table = Table(method, "seeds", box=SIMPLE, padding=(0, 1, 0, 0), title=f"In %, {what}{where}")
    for name in (*columns.values(), "s a run"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in setting.rows:
        seconds = row.spread("seconds").mean
        table.add_row(
            Text(row.label),
            f"{len(row.finished)}" + (f" of {len(row.results)}" if len(row.finished) < len(row.results) else ""),
            *(row.spread(c).percent() for c in columns),
            "-" if math.isnan(seconds) else f"{seconds:.1f}",
        )
    return table


def _apart(results: Sequence[tuple[str, Result]], chosen: bool) -> list[Setting]:
    apart: dict[str, dict[str, list[Result]]] = {}
    for (label, result), stream in zip(results, grouping.streams([run for _, run in results]), strict=True):
        apart.setdefault(stream, {}).setdefault(label, []).append(result)
    held_out_last = sorted(apart.values(), key=lambda rows: next(iter(rows.values()))[0].settings.validation > 0)
    titles = grouping.titles([_telling(rows) for rows in held_out_last])
    made = [
        Setting(title, [Row(label, runs) for label, runs in rows.items()])
        for title, rows in zip(titles, held_out_last, strict=True)
    ]
    return [replace(setting, chosen=chosen and not setting.held_out) for setting in made]


def _asked(run: Run) -> list[str]:
    """The learner, and what else was asked of it than to learn the stream, which methods of a setting share."""
    return [
        run.learner.name,
        *(word(getattr(run, name)) for name in PROBLEM if name not in (*grouping.STREAM, "data_dir")),
    ]


def _telling(rows: Mapping[str, Sequence[Result]]) -> Result:
    """A run that says which images it had, if one of them does."""
    every = [result for results in rows.values() for result in results]
    return next((result for result in every if result.environment.get("data")), every[0])


def _entry(row: Row) -> dict[str, object]:
    names = row.results[0].numbers()
    spreads = {name: row.spread(name) for name in names}
    return {
        "method": row.label,
        "seeds": len(row.finished),
        "not_finished": len(row.results) - len(row.finished),
        **{n: {"mean": null_if_nan(s.mean), "std": null_if_nan(s.std)} for n, s in spreads.items()},
    }
