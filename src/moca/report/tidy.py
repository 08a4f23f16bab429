"""All numbers as one tidy table: one row per run, task and metric, with every setting as a column."""

from __future__ import annotations

import csv
import importlib.util
import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moca.atomic import whole
from moca.engine.result import Result
from moca.settings import Run, word

if TYPE_CHECKING:
    from moca.report.comparison import Comparison

FILE = "tidy.csv"
PARQUET = "tidy.parquet"


def rows(comparison: Comparison) -> Iterator[dict[str, Any]]:
    """The rows of finished runs; tasks count from 1, and numbers of a whole run have no task."""
    names = comparison.names
    for setting in comparison.settings:
        for row in setting.rows:
            for result in row.finished:
                about = {"run": names[result.folder]} | _about(setting.title, row.label, result)
                for task, metric, value in _numbers(result, row.at_once):
                    if math.isfinite(value):
                        yield about | {"task": task, "metric": metric, "value": value}


def _about(title: str, label: str, result: Result) -> dict[str, Any]:
    environment = result.environment
    return {
        "setting": title,
        "method": label,
        "learner_name": result.settings.learner.name,
        "perturb_name": result.settings.perturb.name,
        **{name: word(getattr(result.settings, name)) for name in Run.model_fields},
        "hardware": str(environment.get("device", "")),
        "host": str(environment.get("host", "")),
        "code": str(environment.get("code", environment.get("moca", ""))),
        "started": result.started,
    }


def _numbers(result: Result, at_once: bool) -> Iterator[tuple[int | None, str, float]]:
    for name, value in result.numbers().items():
        yield None, name, value
    matrix = result.accuracy_matrix
    tasks = len(matrix[0])
    for j in range(tasks):
        yield j + 1, "accuracy_at_the_end", matrix[-1][j]
        yield j + 1, "task_il_accuracy_at_the_end", result.task_il_matrix[-1][j]
        if not at_once:
            yield j + 1, "accuracy_when_learned", matrix[j + 1][j]
    for j, value in enumerate(result.accuracy_over_tasks):
        yield (tasks if at_once else j + 1), "accuracy_on_tasks_so_far", value


def write(comparison: Comparison, folder: Path) -> None:
    """Write tidy.csv and, if pyarrow is installed, tidy.parquet."""
    made = list(rows(comparison))
    with whole(folder / FILE) as path, path.open("w", newline="", encoding="utf-8", errors="replace") as file:
        if made:
            writer = csv.DictWriter(file, list(made[0]))
            writer.writeheader()
            writer.writerows(made)
    if made and importlib.util.find_spec("pyarrow"):
        import pyarrow
        import pyarrow.parquet

        # It would open a path itself, and wrap what the system says of a full disk in words of its own.
        with whole(folder / PARQUET) as path, path.open("wb") as file:
            pyarrow.parquet.write_table(pyarrow.Table.from_pylist(made), file)
