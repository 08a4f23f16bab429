"""Runs side by side: mean and standard deviation over seeds."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Column, Table

from moca.engine.cost import Cost
from moca.engine.result import Result, null_if_nan
from moca.errors import MocaError, nearest


@dataclass(frozen=True)
class Spread:
    """Mean and sample standard deviation of one number over the runs that finished."""

    mean: float
    std: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """The spread of some values; the standard deviation of a single one is unknown."""
        known = np.array([v for v in values if math.isfinite(v)])
        return cls(
            float(known.mean()) if len(known) else math.nan, float(known.std(ddof=1)) if len(known) > 1 else math.nan
        )

    def percent(self) -> str:
        """As a percentage, as tables print it."""
        if math.isnan(self.mean):
            return "-"
        return f"{100 * self.mean:.2f}" + ("" if math.isnan(self.std) else f" ± {100 * self.std:.2f}")


@dataclass(frozen=True)
class Row:
    """One method: all its runs, a seed each."""

    label: str
    results: list[Result]

    @property
    def finished(self) -> list[Result]:
        """Only runs that reached the end count."""
        return [r for r in self.results if r.status == "finished"]

    def spread(self, number: str) -> Spread:
        """Mean and deviation of one of the numbers of a result."""
        if self.results and number not in (known := self.results[0].numbers()):
            raise MocaError(f"a result has no number '{number}'; {nearest(number, known)}")
        return Spread.of([r.numbers()[number] for r in self.finished])

    def differences(self, other: Row, number: str) -> list[float]:
        """How far this method is above another, for each seed that both finished with and that has the number."""
        theirs = {r.settings.seed: r.numbers()[number] for r in other.finished}
        ours = {r.settings.seed: r.numbers()[number] for r in self.finished}
        pairs = [value - theirs[seed] for seed, value in ours.items() if seed in theirs]
        return [difference for difference in pairs if math.isfinite(difference)]


class Comparison:
    """The results of `moca compare`, a row for each method."""

    def __init__(self, results: Sequence[tuple[str, Result]], folder: Path, cost: Cost | None = None) -> None:
        self.folder, self.cost = folder, cost
        labels = dict.fromkeys(label for label, _ in results)
        self.rows = [Row(label, [r for name, r in results if name == label]) for label in labels]

    @property
    def results(self) -> list[Result]:
        """All runs."""
        return [r for row in self.rows for r in row.results]

    @property
    def mistakes(self) -> list[str]:
        """Which runs could not be done, and why."""
        return [f"{r.folder.name}: {r.message}" for r in self.results if r.status == "failed"]

    def __getitem__(self, label: str) -> Row:
        rows = {row.label: row for row in self.rows}
        if label not in rows:
            raise MocaError(f"no method '{label}' was compared; {nearest(label, rows)}")
        return rows[label]

    def __rich__(self) -> Table:
        """Mean and standard deviation of each method."""
        columns = {"final_accuracy": "final accuracy", "forgetting": "forgetting"}
        table = Table(Column("method", overflow="fold"), "seeds", box=SIMPLE, title="In %, mean ± standard deviation")
        for title in (*columns.values(), "s a run"):
            table.add_column(title, justify="right", no_wrap=True)
        for row in self.rows:
            seconds = row.spread("seconds").mean
            table.add_row(
                row.label,
                f"{len(row.finished)}" + (f" of {len(row.results)}" if len(row.finished) < len(row.results) else ""),
                *(row.spread(c).percent() for c in columns),
                "-" if math.isnan(seconds) else f"{seconds:.1f}",
            )
        return table

    def __str__(self) -> str:
        plain = Console(width=120, color_system=None, force_jupyter=False)
        with plain.capture() as shown:
            plain.print(self)
        return shown.get().rstrip()

    def save(self) -> None:
        """Write runs.csv, a line a run; comparison.json, an entry a method; and cost.json, if runs were done now."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "runs.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            for i, (label, result) in enumerate((row.label, r) for row in self.rows for r in row.results):
                numbers = result.numbers()
                if i == 0:
                    writer.writerow(["method", "seed", "status", *numbers, "folder"])
                writer.writerow([label, result.settings.seed, result.status, *numbers.values(), result.folder.name])
        (self.folder / "comparison.json").write_text(json.dumps([_entry(row) for row in self.rows], indent=2) + "\n")
        if self.cost:
            (self.folder / "cost.json").write_text(json.dumps(self.cost.numbers(), indent=2) + "\n")


def _entry(row: Row) -> dict[str, object]:
    names = row.results[0].numbers()
    spreads = {name: row.spread(name) for name in names}
    return {
        "method": row.label,
        "seeds": len(row.finished),
        "not_finished": len(row.results) - len(row.finished),
        **{n: {"mean": null_if_nan(s.mean), "std": null_if_nan(s.std)} for n, s in spreads.items()},
    }
