"""The report's figures for print, as PDF (with selectable text) and PNG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from moca.engine.plan import folder_name
from moca.report.analysis_figures import draw
from moca.report.comparison import Comparison
from moca.report.facets import Facet, Family, facets, families
from moca.report.labels import rows_of, wrapped
from moca.report.methods import Row
from moca.report.palette import LOOKS
from moca.report.printing import COLUMN, DASHES, INK, PAGE, RULE, legend, over_seeds, save, style, y_label
from moca.report.spread import Spread
from moca.report.sweeps import Sweep, sweeps
from moca.report.table import UNKNOWN

_MOST_NUMBERED = 20
"""Most tasks for which the cells of a matrix show numbers."""
_LEVEL: Any = (0, (4, 2))
"""Dash pattern of horizontal lines."""
_DARKEST = 115
"""Percentage at the dark end of the colour map: above 100, so that numbers in dark cells stay readable."""


def save_figures(comparison: Comparison, folder: str | Path) -> list[Path]:
    """Draw every setting's figures as PDF and PNG: accuracies over tasks, final accuracies, matrices and analyses.

    Also accuracies within the stream, if runs were evaluated there, and final accuracies against settings that were
    varied.
    """
    made: list[Path] = []
    folder = Path(folder)
    for number, setting in enumerate(comparison.settings, 1):
        before = f"{number}-{folder_name(setting.title)}-" if len(comparison.settings) > 1 else ""
        if side_by_side := families(setting):
            made += save(accuracy_panels(side_by_side, setting.images), folder, f"{before}accuracy")
        for part, facet in enumerate(shared := facets(setting), 1):
            after = f"-{part}" if len(shared) > 1 else ""
            drawn = {
                "final": final_accuracies(facet, setting.images),
                "matrices": accuracy_matrices(facet.rows),
            }
            if not side_by_side:
                drawn["accuracy"] = accuracy_curves(facet, setting.images)
            if any(row.over_stream()[0] for row in facet.rows):
                drawn["stream"] = stream_curves(facet, setting.images)
            for name, figure in drawn.items():
                made += save(figure, folder, f"{before}{name}{after}")
        for part, sweep in enumerate(found := sweeps(setting), 1):
            after = f"-{part}" if sum(other.name == sweep.name for other in found) > 1 else ""
            made += save(against(sweep, setting.images), folder, f"{before}final-against-{sweep.name}{after}")
        made += draw(setting, folder, before)
    return made


@style()
def accuracy_curves(facet: Facet, judged: str) -> Figure:
    """Accuracy over the tasks learned so far: mean over seeds as a line, one standard deviation as a band."""
    figure = Figure((COLUMN, 2.4), layout="constrained")
    axes = figure.add_subplot()
    handles = [_curve(axes, row, place) for place, row in enumerate(facet.rows)]
    axes.set_ylabel(y_label(f"Accuracy on {judged} (%)"))
    _over_tasks([axes], facet.rows)
    legend(figure, handles, _names(facet.rows), _seeds(facet.rows))
    return figure


@style()
def accuracy_panels(learners: Sequence[Family], judged: str) -> Figure:
    """Accuracy over the tasks learned so far, in a panel for each learner, all with the same axes and colours."""
    across = 2 if len(learners) in (2, 4) else 3
    down = -(-len(learners) // across)
    figure = Figure((PAGE, 2.3 * down), layout="constrained")
    grid = [figure.add_subplot(down, across, place + 1) for place in range(len(learners))]
    handles: dict[str, Line2D] = {}
    for place, (axes, learner) in enumerate(zip(grid, learners, strict=True)):
        for name, colour, row in learner.methods:
            handles[name] = _curve(axes, row, colour)
        axes.set_title("\n".join(wrapped(learner.title, 100 // across)))
        first = place % across == 0
        axes.set_ylabel(y_label(f"Accuracy on {judged} (%)") if first else "")
        axes.tick_params("y", labelleft=first)
    rows = [row for learner in learners for _, _, row in learner.methods]
    _over_tasks(grid, rows)
    legend(figure, [*handles.values()], [*handles], _seeds(rows))
    return figure


def _over_tasks(grid: Sequence[Axes], rows: Sequence[Row]) -> None:
    """Give these axes the same limits, which all lines fit, and ticks at whole numbers of tasks."""
    last = max(row.tasks for row in rows)
    lows, highs = zip(*(axes.get_ylim() for axes in grid), strict=True)
    low, high = min(lows), max(highs)
    for axes in grid:
        axes.set(xlabel="Tasks learned", xlim=(1 - 0.04 * last, last * 1.04))
        axes.set_ylim(max(low, -1), min(max(high, low + 1), 101))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        axes.grid(axis="y")


def _names(rows: Sequence[Row]) -> list[str]:
    """What the methods are called, as in the tables for LaTeX."""
    return [row.name.in_print for row in rows]


def _seeds(rows: Sequence[Row], spread: bool = True) -> str:
    return over_seeds((len(row.finished) for row in rows), spread)


def _curve(axes: Axes, row: Row, place: int) -> Line2D:
    spreads = row.over_tasks()
    line = _line(axes, [row.tasks] if row.at_once else range(1, row.tasks + 1), spreads, place)
    line.set_clip_on(False)
    if row.at_once:
        _level(axes, spreads[0], place)
        line.set(linestyle=_LEVEL, linewidth=1.1)  # a single point: the style is for the legend
    return line


def _level(axes: Axes, spread: Spread, place: int) -> Line2D:
    """Draw a mean, in percent, as a horizontal line, with its standard deviation as a band."""
    mean, std, colour = 100 * spread.mean, 100 * np.nan_to_num(spread.std), LOOKS[place].light
    axes.axhspan(mean - std, mean + std, color=colour, alpha=0.12, lw=0, zorder=0)
    return axes.axhline(mean, color=colour, lw=1.1, ls=_LEVEL, zorder=1)


def _line(axes: Axes, x: Sequence[float], spreads: Sequence[Spread], place: int) -> Line2D:
    """Draw means, in percent, as a line, with standard deviations as a band."""
    colour, _, marker, _, dash = LOOKS[place]
    mean, std = 100 * np.array([s.mean for s in spreads]), 100 * np.nan_to_num([s.std for s in spreads])
    axes.fill_between(x, mean - std, mean + std, color=colour, alpha=0.13, lw=0)
    look: dict[str, Any] = {"marker": marker, "ms": 4, "mec": "white", "mew": 0.5, "lw": 1.3, "ls": DASHES[dash]}
    (line,) = axes.plot(x, mean, color=colour, **look, zorder=3)
    return line


@style()
def stream_curves(facet: Facet, judged: str) -> Figure:
    """Accuracy within the stream on the tasks begun so far: mean over seeds, one standard deviation as a band."""
    figure = Figure((COLUMN, 2.4), layout="constrained")
    axes = figure.add_subplot()
    handles, drawn = [], []
    for place, row in enumerate(facet.rows):
        steps, spreads = row.over_stream()
        if steps:
            handles.append(_line(axes, steps, spreads, place))
            drawn.append(row)
    axes.set(xlabel="Steps", ylabel=y_label(f"Accuracy on {judged} (%)"))
    axes.grid(axis="y")
    legend(figure, handles, _names(drawn), _seeds(drawn))
    return figure


@style()
def against(sweep: Sweep, judged: str) -> Figure:
    """Final accuracy against a setting that was varied: mean over seeds, one standard deviation as a band.

    Learners that do not have the setting are horizontal lines.
    """
    figure = Figure((COLUMN, 2.4), layout="constrained")
    axes = figure.add_subplot()
    handles = []
    of_levels, of_lines = sweep.colours
    for place, row in zip(of_levels, sweep.levels, strict=True):
        handles.append(_level(axes, row.spread("final_accuracy"), place))
    for place, line in zip(of_lines, sweep.lines, strict=True):
        spreads = [row.spread("final_accuracy") for _, row in line.points]
        handles.append(_line(axes, [value for value, _ in line.points], spreads, place))
    axes.set(
        xlabel=sweep.axis.replace("lambda", "\N{GREEK SMALL LETTER LAMDA}"),
        ylabel=y_label(f"Final accuracy on {judged} (%)"),
    )
    if sweep.logarithmic:
        axes.set_xscale("log")
        axes.set_xticks([*sweep.ticks], [*sweep.ticks.values()])
        axes.minorticks_off()
    axes.grid(axis="y")
    names = [*_names(sweep.levels), *(line.name.in_print for line in sweep.lines)]
    legend(figure, handles, names, _seeds(sweep.rows))
    return figure


@style()
def accuracy_matrices(rows: Sequence[Row]) -> Figure:
    """The accuracy matrix of each method, mean over seeds in percent; tasks not learned yet are left blank."""
    tasks, stages = max(row.tasks for row in rows), max(1 if row.at_once else row.tasks for row in rows)
    cell = 0.32 if tasks <= 6 else 0.27 if tasks <= 10 else max(0.16, 4.5 / tasks)
    titles = [wrapped(name, max(18, int(14 * cell * tasks))) for name in _names(rows)]
    cell = max(cell, *(0.07 * len(line) / tasks for title in titles for line in title))
    width, height = cell * tasks + 0.6, cell * stages + 0.65 + 0.16 * max(map(len, titles))
    down = -(-len(rows) // (int(PAGE // width) or 1))
    across = -(-len(rows) // down)  # rows of nearly equal length
    figure = Figure((across * width, down * height), layout="constrained")
    for place, (title, row) in enumerate(zip(titles, rows, strict=True)):
        _matrix(figure.add_subplot(down, across, place + 1), row, "\n".join(title))
    legend(figure, [], [], f"accuracy in %, {_seeds(rows, spread=False)}")
    return figure


def _matrix(axes: Axes, row: Row, title: str) -> None:
    cells, tasks = row.matrix(), row.tasks
    stages = len(cells)
    learned = [(i, j, cell) for i, line in enumerate(cells) for j, cell in enumerate(line) if cell]
    for i, j, cell in learned:
        value = 100 * cell.mean
        shade = RULE if np.isnan(value) else colormaps["Blues"](value / _DARKEST)
        axes.add_patch(Rectangle((j + 0.51, i + 0.51), 0.98, 0.98, facecolor=shade, linewidth=0))
        if tasks <= _MOST_NUMBERED:
            text, colour = UNKNOWN if np.isnan(value) else f"{value:.0f}", "white" if value > 72 else INK
            size = 8 if tasks <= 6 else 7.5 if tasks <= 10 else 7
            axes.text(j + 1, i + 1, text, ha="center", va="center_baseline", color=colour, fontsize=size)
    axes.set(title=title, aspect="equal", ylim=(stages + 0.5, 0.5), xlim=(0.5, tasks + 0.5), xlabel="Task")
    every = 1 if tasks <= 10 else 5
    axes.set_xticks([t for t in range(1, tasks + 1) if t == 1 or t % every == 0])
    if row.at_once:
        axes.set_yticks([1], ["all"])
    else:
        axes.set_yticks([t for t in range(1, stages + 1) if t == 1 or t % every == 0])
        axes.set_ylabel("After task")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


@style()
def final_accuracies(facet: Facet, judged: str) -> Figure:
    """Final accuracy of every seed as a dot, with mean and one standard deviation of each method."""
    row_height, line_height = 0.46, 0.15
    labels = [wrapped(name, 43) for name in _names(facet.rows)]
    at = rows_of(labels, line_height / row_height)
    figure = Figure((COLUMN, 0.5 + row_height * (at[-1] + 1)), layout="constrained")
    axes = figure.add_subplot()
    for place, (row, label, y) in enumerate(zip(facet.rows, labels, at, strict=True)):
        values, spread = [100 * v for v in row.values("final_accuracy")], row.spread("final_accuracy")
        mean, colour = 100 * spread.mean, LOOKS[place].light
        name = axes.text(0, y - 0.16, "\n".join(label), transform=axes.get_yaxis_transform(), va="bottom", fontsize=8.5)
        name.set_in_layout(False)
        axes.axhline(y + 0.1, color=RULE, lw=0.6, zorder=0)
        if len(values) > 1:
            axes.errorbar(mean, y + 0.1, xerr=100 * spread.std, color=colour, lw=1.2, capsize=2, zorder=2)
        axes.plot([mean] * 2, [y - 0.08, y + 0.28], color=colour, lw=2.2, zorder=3)
        axes.plot(values, [y + 0.1] * len(values), "o", ms=4.5, mfc=colour, mec="white", mew=0.6, alpha=0.75, zorder=4)
    axes.set(xlabel=f"Final accuracy on {judged} (%)", ylim=(at[-1] + 0.5, -0.55), yticks=[])
    axes.spines["left"].set_visible(False)
    axes.margins(x=0.06)
    axes.xaxis.set_major_locator(MaxNLocator(6))
    axes.grid(axis="x")
    legend(figure, [], [], f"dots: seeds; {_seeds(facet.rows)}")
    return figure
