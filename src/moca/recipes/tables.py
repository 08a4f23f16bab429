"""The paper's numbers next to ours, as tables of text with remarks."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from moca.recipes.cells import Cell
from moca.recipes.experiment import Experiment, departures
from moca.recipes.matching import Entry
from moca.recipes.metrics import in_words
from moca.report.spread import Spread
from moca.wording import counted

NUMBERS = ("paper", "ours", "n", "diff", "verdict", "run")
"""The last columns of a table of cells."""


def columns(shown: Sequence[Cell]) -> list[str]:
    """The columns that distinguish these cells: the method, and the kinds of tags in which they differ."""
    kinds = dict.fromkeys(
        ["setting", "data", "method", "memory", "head", "lambda", *(k for c in shown for k in c.more), "metric"]
    )
    values = {kind: {cell.tags.get(kind) for cell in shown} for kind in kinds}
    for kind in ("lambda", "zeta"):  # cells without a perturbation have none
        values.setdefault(kind, set()).discard(None)
    return [kind for kind in kinds if kind == "method" or len(values[kind]) > 1]


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
