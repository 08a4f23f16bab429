"""The result table of a report, as text."""

from __future__ import annotations

import math
from dataclasses import dataclass

from moca.report.comparison import Comparison, Row, Spread
from moca.report.palette import method_colour

UNKNOWN = "\N{EN DASH}"


@dataclass(frozen=True)
class Cell:
    """A mean as printed, and what stands small behind it."""

    mean: str = UNKNOWN
    aside: str = ""


@dataclass(frozen=True)
class Column:
    """A number of the table: what it is called, how to print it, and one line that explains it."""

    number: str
    title: str
    meaning: str
    unit: str = "percent"


COLUMNS = (
    Column(
        "final_accuracy",
        "Final accuracy\N{NO-BREAK SPACE}↑",
        "mean accuracy over all tasks after the last one; all classes compete",
    ),
    Column(
        "average_incremental_accuracy",
        "Average incremental\N{NO-BREAK SPACE}↑",
        "mean, over the stages, of the mean accuracy over the tasks learned by then",
    ),
    Column(
        "forgetting",
        "Forgetting\N{NO-BREAK SPACE}↓",
        "how far each earlier task has fallen from the best it ever was since it was learned, on average",
    ),
    Column(
        "bwt",
        "BWT\N{NO-BREAK SPACE}↑",
        "backward transfer: how much each earlier task has changed since it was learned, on average",
    ),
    Column(
        "fwt",
        "FWT\N{NO-BREAK SPACE}↑",
        "forward transfer: accuracy on each task just before it is learned, above that of the untrained model",
    ),
    Column(
        "task_il_accuracy",
        "Task-IL accuracy\N{NO-BREAK SPACE}↑",
        "final accuracy when the task of each sample is known, so that only the classes of its task compete",
    ),
    Column("seconds", "Seconds", "training time of a run, evaluation excluded", "seconds"),
    Column("images_per_second", "Images/s", "new and replayed images trained on in a second", "rate"),
)


@dataclass(frozen=True)
class Line:
    """One method of the table."""

    label: str
    colour: str
    seeds: str
    cells: dict[str, Cell]
    difference: Cell
    better: str


def lines(comparison: Comparison) -> list[Line]:
    """The table, a line for each method."""
    return [_line(row, place, comparison.rows[0]) for place, row in enumerate(comparison.rows)]


def _line(row: Row, place: int, first: Row) -> Line:
    finished, begun = len(row.finished), len(row.results)
    differences = row.differences(first, "final_accuracy") if place else []
    return Line(
        row.label,
        method_colour(place),
        f"{finished}" if finished == begun else f"{finished} of {begun}",
        {c.number: _cell(row.spread(c.number), c.unit) for c in COLUMNS},
        signed(Spread.of(differences)),
        f"{sum(d > 0 for d in differences)} of {len(differences)}" if differences else UNKNOWN,
    )


def _cell(spread: Spread, unit: str) -> Cell:
    if math.isnan(spread.mean):
        return Cell()
    if unit == "percent":
        return Cell(percent(spread.mean), _plus_minus(spread))
    digits = 0 if unit == "rate" or spread.mean >= 1000 else 1 if spread.mean >= 10 else 2
    return Cell(f"{spread.mean:,.{digits}f}")


def signed(spread: Spread) -> Cell:
    """A difference in percentage points, with its sign."""
    if math.isnan(spread.mean):
        return Cell()
    shown = percent(spread.mean)
    return Cell(f"+{shown}" if spread.mean > 0 and shown != "0.00" else shown, _plus_minus(spread))


def percent(share: float) -> str:
    """A share as a percentage, with a true minus sign and no negative zero."""
    return f"{round(100 * share, 2) + 0.0:.2f}".replace("-", "\N{MINUS SIGN}")


def _plus_minus(spread: Spread) -> str:
    return "" if math.isnan(spread.std) else f"± {100 * spread.std:.2f}"
