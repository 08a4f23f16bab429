"""Comparing methods: mean and standard deviation over seeds."""

from __future__ import annotations

import csv
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rich.box import SIMPLE
from rich.console import Console, Group
from rich.table import Column as TableColumn
from rich.table import Table
from rich.text import Text

from moca.atomic import whole, writing
from moca.engine.cost import Cost
from moca.engine.listing import Listed
from moca.engine.result import Result, null_if_nan
from moca.engine.selection import CHOSEN
from moca.errors import MocaError, nearest
from moca.paths import from_here
from moca.report import grouping, tidy
from moca.report.loading import load
from moca.report.methods import Row, Setting
from moca.report.verdict import verdict
from moca.settings import Label, Run, validate, word
from moca.settings.method import method


class Comparison:
    """Results of `moca compare`, or of any earlier runs, with one row per method."""

    def __init__(
        self,
        results: Sequence[tuple[Label, Result]],
        folder: Path,
        cost: Cost | None = None,
        left_out: Sequence[str] = (),
        chosen: bool = False,
    ) -> None:
        self.folder, self.cost = folder.absolute(), cost
        self.left_out = list(left_out)
        """Runs that were found but left out, each with the reason."""
        self.settings = _by_setting(results, chosen)
        """The methods, grouped by the stream they learn and the images they are evaluated on."""

    @classmethod
    def load(cls, folders: str | Path | Sequence[str | Path], only: Sequence[Listed] | None = None) -> Comparison:
        """Load all runs that have ended from some folders, at any depth; or `only` these of them.

        Runs that diverged have no numbers, but are in `Row.results`. Runs that are unfinished, unreadable or duplicates
        are left out; `left_out` names them.
        """
        several = [folders] if isinstance(folders, str | Path) else list(folders)
        if not several:
            raise MocaError("give at least one folder of runs")
        chosen = len(several) == 1 and (Path(several[0]) / CHOSEN).is_file()
        labelled, left_out = load([Path(place) for place in several], chosen, only)
        return cls(labelled, Path(several[0]) if len(several) == 1 else Path(), left_out=left_out, chosen=chosen)

    @property
    def results(self) -> list[Result]:
        """The runs of all methods in all settings."""
        return [r for row in self.rows for r in row.results]

    @property
    def rows(self) -> list[Row]:
        """All methods; if a name occurs in several settings, the setting's title is added to it."""
        names = Counter(row.label for setting in self.settings for row in setting.rows)
        return [
            Row(row.name.also(f"({setting.title})"), row.results) if names[row.label] > 1 else row
            for setting in self.settings
            for row in setting.rows
        ]

    @property
    def names(self) -> dict[Path, str]:
        """What each run is called, by its folder: the folder's name, or if several have the same name, its path."""
        folders = [result.folder for result in self.results]
        unique = len({folder.name for folder in folders}) == len(folders)
        return {folder: folder.name if unique else str(from_here(folder)) for folder in folders}

    @property
    def mistakes(self) -> list[str]:
        """The runs that failed, each with the reason."""
        return [f"{r.folder.name}: {r.message}" for r in self.results if r.status == "failed"]

    def __getitem__(self, label: str) -> Row:
        """The method of that name, in any spelling: `er+wap:lambda=1`, also if the recipe sets lambda to 1 anyway.

        If it was evaluated on held-out and on test images, this is the method on the test images.
        """
        rows = {row.label: row for row in self.rows}
        if label in rows:
            return rows[label]
        found = [row for row in rows.values() if _is_called(row.run, label)]
        found = [row for row in found if not row.run.validation] or found
        if len(found) > 1:
            raise MocaError(f"several methods are called '{label}': {', '.join(row.label for row in found)}; name one")
        if not found:
            raise MocaError(f"no method '{label}' was compared; {nearest(str(label), rows)}")
        return found[0]

    def __iter__(self) -> Iterator[str]:
        """The names of the methods."""
        return (row.label for row in self.rows)

    def __rich__(self) -> Group:
        """One table per setting, with mean and standard deviation of each method, and a verdict on the differences.

        If there are several settings, each has a heading.
        """
        parts: list[Text | Table] = []
        for setting in self.settings:
            parts += [Text(setting.title, "bold")] * (len(self.settings) > 1)
            parts.append(_table(setting))
            parts += [Text(f"{words}\n")] if (words := verdict(setting)) else []
        return Group(*parts)

    def __str__(self) -> str:
        plain = Console(width=120, color_system=None, force_jupyter=False)
        with plain.capture() as shown:
            plain.print(self)
        return shown.get().rstrip()

    __repr__ = __str__

    def save(self, folder: str | Path | None = None) -> None:
        """Write the tables to a folder, by default the comparison's own.

        These are runs.csv (a line per run), tidy.csv and, if pyarrow is installed, tidy.parquet (a line per run, task
        and number), comparison.json (an entry per method), and cost.json if runs were carried out just now.
        """
        folder = Path(folder or self.folder)
        own = folder.absolute() == self.folder
        remedy = "fix that and resume (moca resume, or the same comparison again)" if own else "choose another"
        with writing(f"folder '{folder}'", remedy):
            folder.mkdir(parents=True, exist_ok=True)
            self._write(folder)

    def _write(self, folder: Path) -> None:
        numbers = list(dict.fromkeys(name for result in self.results for name in result.numbers()))
        names = self.names
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
                writer.writerow([label, result.settings.seed, result.status, *values, names[result.folder]])
        tidy.write(self, folder)
        with whole(folder / "comparison.json") as path:
            path.write_text(json.dumps([_entry(row) for row in self.rows], indent=2) + "\n")
        if self.cost:
            with whole(folder / "cost.json") as path:
                path.write_text(json.dumps(self.cost.numbers(), indent=2) + "\n")


def _table(setting: Setting) -> Table:
    columns = {"final_accuracy": "final accuracy", "forgetting": "forgetting"}
    method = TableColumn("method", overflow="fold")
    where = ", on held-out images" * setting.held_out
    most = max(len(row.finished) for row in setting.rows)
    what = {0: "", 1: ", of a single seed"}.get(most, ", mean ± standard deviation")
    table = Table(method, "seeds", box=SIMPLE, padding=(0, 1, 0, 0), title=f"In %{what}{where}")
    for name in (*columns.values(), "s/run"):
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


def _by_setting(results: Sequence[tuple[Label, Result]], chosen: bool) -> list[Setting]:
    """Group the runs by stream and then by method; settings evaluated on held-out images come last."""
    by_stream: dict[str, dict[Label, list[Result]]] = {}
    for (label, result), stream in zip(results, grouping.streams([run for _, run in results]), strict=True):
        by_stream.setdefault(stream, {}).setdefault(label, []).append(result)
    held_out_last = sorted(by_stream.values(), key=lambda rows: next(iter(rows.values()))[0].settings.validation > 0)
    titles = grouping.titles([_with_fingerprint(rows) for rows in held_out_last])
    settings = [
        Setting(title, [Row(label, runs) for label, runs in rows.items()])
        for title, rows in zip(titles, held_out_last, strict=True)
    ]
    return [replace(setting, chosen=chosen and not setting.held_out) for setting in settings]


def _is_called(run: Run, name: str) -> bool:
    """Whether a name such as `er+wap:lambda=1 lr=0.1` is one of this run's method."""
    try:
        in_short, *others = str(name).split()
        asked = validate(Run, method(in_short) | dict(other.split("=", 1) for other in others))
    except (MocaError, ValueError):
        return False
    parts = ((asked.learner, run.learner), (asked.perturb, run.perturb))
    return all(a.name == b.name and grouping.in_place(a, run).options == b.options for a, b in parts) and all(
        word(getattr(asked, key)) == word(getattr(run, key)) for key in asked.model_fields_set - {"learner", "perturb"}
    )


def _with_fingerprint(rows: Mapping[Label, Sequence[Result]]) -> Result:
    """A run that recorded the fingerprint of its images, if there is one; else the first."""
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
