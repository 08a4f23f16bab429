"""`moca runs`: list the runs in some folders."""

from __future__ import annotations

import json
import math
import os
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal

from rich.box import SIMPLE
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from moca.cli.filters import Several, refuse_folders_after, why_none
from moca.cli.show import UNLIMITED, console, in_bytes
from moca.engine.listing import RUNS, Listed, State, chosen, listed, not_begun
from moca.engine.unusual import told_apart
from moca.wording import counted

_COLOURS = {"finished": "green", "running": "cyan", "stopped": "yellow"}
_SPARED = ("size", "started", "method", "time", "data")
"""Columns that are left out, in this order, until the table fits the terminal; the name of a run says most of them."""
_MOST_COMMANDS = 12
"""How many commands for unfinished runs are printed."""

Sort = Literal["name", "method", "data", "seed", "state", "accuracy", "when", "long", "size"]


def runs(
    *folders: Path,
    learner: Annotated[list[str] | None, Several] = None,
    perturb: Annotated[list[str] | None, Several] = None,
    data: Annotated[list[str] | None, Several] = None,
    state: Annotated[list[State] | None, Several] = None,
    sort: Sort = "name",
    json: bool = False,
) -> None:
    """List runs with their method, state and accuracy, and what to do next.

    Parameters
    ----------
    folders
        Folders of runs or comparisons, or their parent folders [default: runs]
    learner
        Only runs of these learners.
    perturb
        Only runs with these perturbations; none selects those without.
    data
        Only runs on these data sets.
    state
        Only runs in these states; older means written by a version of moca whose settings this one cannot read.
    sort
        Names in ascending order, the latest run last; accuracy, time (long) and size in descending order.
    json
        Print JSON, one object per run.
    """
    places = folders or ((RUNS,) if RUNS.is_dir() else ())
    every = list(listed(*places))
    filters = {"learner": learner, "perturb": perturb, "data": data}
    refuse_folders_after(filters, every, "runs")
    shown = chosen(every, learner or (), perturb or (), data or (), state or (), sort)
    if json:
        _as_json(shown)
        return
    if not shown:
        console.print(Text(why_none(places, every, filters)), soft_wrap=True)
        return
    console.print(_fitting_table(shown, places))
    _show_next(shown, places)
    states = ", ".join(f"{count} {name}" for name, count in Counter(run.state for run in shown).items())
    finished = sum(run.state == "finished" for run in shown)
    chosen_by = [word for name, values in filters.items() if values for word in (f"--{name}", *values)]
    more = f" Draw them: {shlex.join(['moca', 'report', *map(str, places), *chosen_by])}" if finished else ""
    console.print(Text(f"{states}; {in_bytes(sum(run.size for run in shown))}.{more}"), soft_wrap=True)
    if any(run.held_out and not math.isnan(run.accuracy) for run in shown):
        console.print(Text("* on a held-out share of the training data, not on the test set"), style="dim")


def _show_next(shown: Sequence[Listed], places: Sequence[Path]) -> None:
    """Print the next command for unfinished runs: one for each comparison to resume, one for each other run.

    They are separate lines, since commands in the cells of a narrow table could not be copied.
    """
    comparisons: dict[Path, Counter[str]] = {}
    alone = []
    for run in shown:
        if run.comparison:
            comparisons.setdefault(run.comparison, Counter())[run.state] += 1
        if run.state not in ("finished", "running") and not (run.comparison and run.state == "stopped"):
            alone.append(run)
    for folder, states in comparisons.items():
        there = {"stopped": states["stopped"], "running": states["running"], "not begun": len(not_begun(folder))}
        if there["stopped"] or (there["not begun"] and not there["running"]):
            left = ", ".join(f"{count} {state}" for state, count in there.items() if count)
            path = shlex.quote(str(folder))
            console.print(Text.assemble((f"{folder.name}, {left}: ", "dim"), f"moca resume {path}"), soft_wrap=True)
    for run in alone[:_MOST_COMMANDS]:
        console.print(Text.assemble((f"{_name(run, places)}: ", "dim"), run.next), soft_wrap=True)
    if len(alone) > _MOST_COMMANDS:
        more = f"and {len(alone) - _MOST_COMMANDS} more that did not finish; --json lists them all"
        console.print(Text(more), style="dim")


def _as_json(shown: Sequence[Listed]) -> None:
    Console(soft_wrap=True, highlight=False, markup=False).print(
        Text(json.dumps([run.facts() for run in shown], indent=2))
    )


def _fitting_table(shown: Sequence[Listed], places: Sequence[Path]) -> Table:
    """The table without the columns that the terminal has no room for; if even that is too wide, names are folded."""
    columns = {
        "run": [Text(_name(run, places)) for run in shown],
        "method": [Text(run.method) for run in shown],
        "unlike most": [Text(words) for words in told_apart(shown)],
        "data": [Text(run.data) for run in shown],
        "seed": [Text("" if run.seed is None else str(run.seed)) for run in shown],
        "state": [_state(run) for run in shown],
        "accuracy %": [Text(_accuracy(run)) for run in shown],
        "started": [Text(_when(run.started)) for run in shown],
        "time": [Text(_long(run.seconds)) for run in shown],
        "size": [Text(in_bytes(run.size)) for run in shown],
    }
    filled = {name: cells for name, cells in columns.items() if any(cell.plain for cell in cells)}
    table, unlimited = _table(filled), console.options.update(max_width=UNLIMITED)
    for name in _SPARED:
        if Measurement.get(console, unlimited, table).maximum <= console.width:
            break
        filled.pop(name, None)
        table = _table(filled)
    return table


def _table(columns: Mapping[str, Sequence[Text]]) -> Table:
    table = Table(box=SIMPLE, padding=(0, 1, 0, 0))
    for name in columns:
        number = name in ("seed", "accuracy %", "time", "size")
        fold = name in ("run", "method", "unlike most")
        table.add_column(name, justify="right" if number else "left", no_wrap=not fold,
                         overflow="fold" if fold else "ellipsis", min_width=12 if fold else None)  # fmt: skip
    for row in zip(*columns.values(), strict=True):
        table.add_row(*row)
    return table


def _name(run: Listed, places: Sequence[Path]) -> str:
    """The folder of a run, relative to the listed folder, or to what several of them have in common."""
    shared = os.path.commonpath(list(map(os.path.abspath, places)))
    return str(run.folder) if run.folder.absolute() == Path(shared) else os.path.relpath(run.folder, shared)


def _state(run: Listed) -> Text:
    tasks = counted(run.learned, "task") if run.learned else ""
    after = {"running": f", {tasks} done", "stopped": f" after {tasks}", "failed": f" after {tasks}"}
    return Text(run.state + (after.get(run.state, "") if tasks else ""), _COLOURS.get(run.state, "red"))


def _accuracy(run: Listed) -> str:
    return "" if math.isnan(run.accuracy) else f"{100 * run.accuracy:.2f}{'*' * run.held_out}"


def _when(started: str) -> str:
    try:
        return datetime.fromisoformat(started).astimezone().strftime("%Y-%m-%d %H:%M")
    except ValueError:
        return ""


def _long(seconds: float) -> str:
    if math.isnan(seconds):
        return ""
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02} min"
