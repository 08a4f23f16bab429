"""The figures of a report, each as SVG text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from moca.report.comparison import Row, Spread
from moca.report.palette import class_colour, method_colour, method_dash, method_marker
from moca.report.svg import FAINT, INK, RULE, folded, plain, style, to_svg
from moca.report.table import UNKNOWN

if TYPE_CHECKING:
    from moca.report.features import Panel

_WIDTH = 4.7
_MOST_POINTS = 2000
_MOST_NUMBERED = 20
"""Tasks up to which the cells of a matrix have room for numbers."""
_DARKEST = 115
"""Percent that the darkest blue stands for: more than there is, to keep numbers readable."""


@style()
def accuracy_curves(rows: Sequence[Row]) -> str:
    """Accuracy over the tasks learned so far: mean over seeds as a line, one standard deviation as a band."""
    most = max(1, min(4, 60 // max(len(plain(r.label)) + 6 for r in rows)))
    lines = -(-len(rows) // most)
    figure = Figure((_WIDTH, 3.0 + 0.2 * lines), layout="constrained")
    axes = figure.add_subplot()
    last = max((len(r.finished[0].accuracy_matrix[0]) for r in rows if r.finished), default=1)
    handles = [_curve(axes, row, place) for place, row in enumerate(rows)]
    axes.set(xlabel="Tasks learned", ylabel="Accuracy on them (%)")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    low, high = axes.get_ylim()
    axes.set(xlim=(1 - 0.04 * last, last * 1.04), ylim=(max(low, -1), min(max(high, low + 1), 101)))
    axes.grid(axis="y")
    figure.legend(
        handles,
        [plain(r.label) for r in rows],
        loc="outside lower center",
        ncols=-(-len(rows) // lines),
        handlelength=2.2,
        columnspacing=1.6,
    )
    return to_svg(figure, "Accuracy over the tasks learned so far, a line for each method")


def _curve(axes: Axes, row: Row, place: int) -> Line2D:
    look: dict[str, Any] = {
        "color": method_colour(place),
        "marker": method_marker(place),
        "ms": 4.5,
        "mec": "white",
        "mew": 0.6,
    }
    line: dict[str, Any] = {"lw": 1.6, "ls": method_dash(place)}
    handle = Line2D([], [], **look, **line)
    if not row.finished:
        return handle
    values = 100 * np.array([r.accuracy_over_tasks for r in row.finished])
    spreads = [Spread.of(column) for column in values.T.tolist()]
    mean, std = np.array([s.mean for s in spreads]), np.nan_to_num([s.std for s in spreads])
    tasks = len(row.finished[0].accuracy_matrix[0])
    at_once = len(mean) == 1 and tasks > 1
    x = np.array([tasks]) if at_once else np.arange(1, len(mean) + 1)
    if at_once:
        axes.axhline(mean[0], color=method_colour(place), lw=1.1, ls=(0, (4, 2)), zorder=1)
        axes.axhspan(*(mean[0] + [-std[0], std[0]]), color=method_colour(place), alpha=0.12, lw=0, zorder=0)
        handle.set(linestyle=(0, (4, 2)), linewidth=1.1)
    axes.fill_between(x, mean - std, mean + std, color=method_colour(place), alpha=0.13, lw=0)
    axes.plot(x, mean, **look, **line, zorder=3, clip_on=False)
    return handle


@style()
def accuracy_matrices(rows: Sequence[Row], columns: int = 3) -> str:
    """The accuracy matrix of each method, mean over seeds in percent; tasks not learned yet are left blank."""
    shown = [row for row in rows if row.finished]
    matrices = [100 * np.mean([r.accuracy_matrix[1:] for r in row.finished], axis=0) for row in shown]
    tasks, stages = max(m.shape[1] for m in matrices), max(m.shape[0] for m in matrices)
    cell = 0.36 if tasks <= 6 else 0.27 if tasks <= 10 else max(0.16, 4.5 / tasks)
    titles = [folded(plain(row.label, 90), max(16, int(10 * cell * tasks))) for row in shown]
    figure, grid = _multiples(
        len(shown), columns, cell * tasks + 0.6, cell * stages + 0.65 + 0.16 * max(map(len, titles))
    )
    for axes, title, matrix in zip(grid, titles, matrices, strict=True):
        _matrix(axes, matrix, "\n".join(title))
    names = ", ".join(row.label for row in shown)
    return to_svg(figure, f"Accuracy on each task after each task: {names}")


def _matrix(axes: Axes, matrix: NDArray[np.float64], title: str) -> None:
    stages, tasks = matrix.shape
    at_once = stages == 1 and tasks > 1
    learned = np.tril(np.ones_like(matrix, dtype=bool)) | at_once
    for i, j in zip(*learned.nonzero(), strict=True):
        value = matrix[i, j]
        shade = RULE if np.isnan(value) else colormaps["Blues"](value / _DARKEST)
        axes.add_patch(Rectangle((j + 0.51, i + 0.51), 0.98, 0.98, facecolor=shade, linewidth=0))
        if tasks <= _MOST_NUMBERED:
            text, colour = UNKNOWN if np.isnan(value) else f"{value:.0f}", "white" if value > 72 else INK
            size = 8.5 if tasks <= 6 else 7.5 if tasks <= 10 else 7
            axes.text(j + 1, i + 1, text, ha="center", va="center_baseline", color=colour, fontsize=size)
    axes.set(title=title, aspect="equal", ylim=(stages + 0.5, 0.5), xlim=(0.5, tasks + 0.5), xlabel="Task")
    every = 1 if tasks <= 10 else 5
    axes.set_xticks([t for t in range(1, tasks + 1) if t == 1 or t % every == 0])
    if at_once:
        axes.set_yticks([1], ["all"])
    else:
        axes.set_yticks([t for t in range(1, stages + 1) if t == 1 or t % every == 0])
        axes.set_ylabel("After task")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def _multiples(count: int, columns: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """A figure of `count` axes of equal size, `columns` a row."""
    across = min(columns, count)
    down = -(-count // across)
    figure = Figure((across * width, down * height), layout="constrained")
    return figure, [figure.add_subplot(down, across, place + 1) for place in range(count)]


@style()
def final_accuracies(rows: Sequence[Row]) -> str:
    """Final accuracy of every seed as a dot, with mean and one standard deviation of each method."""
    figure = Figure((_WIDTH, 0.7 + 0.52 * len(rows)), layout="constrained")
    axes = figure.add_subplot()
    for place, row in enumerate(rows):
        values = [100 * r.final_accuracy for r in row.finished]
        spread, colour = Spread.of(values), method_colour(place)
        axes.text(
            0, place - 0.27, plain(row.label), transform=axes.get_yaxis_transform(), va="center_baseline", fontsize=8.5
        )
        axes.axhline(place + 0.1, color=RULE, lw=0.6, zorder=0)
        if not values:
            axes.text(
                0.5, place + 0.1, "no run finished", transform=axes.get_yaxis_transform(), color=FAINT, fontsize=8
            )
            continue
        if len(values) > 1:
            axes.errorbar(spread.mean, place + 0.1, xerr=spread.std, color=colour, lw=1.3, capsize=3, zorder=2)
        axes.plot([spread.mean] * 2, [place - 0.08, place + 0.28], color=colour, lw=2.2, zorder=3)
        axes.plot(
            values, [place + 0.1] * len(values), "o", ms=5.5, mfc=colour, mec="white", mew=0.6, alpha=0.75, zorder=4
        )
    axes.set(xlabel="Final accuracy (%)", ylim=(len(rows) - 0.5, -0.55), yticks=[])
    axes.spines["left"].set_visible(False)
    axes.margins(x=0.06)
    axes.xaxis.set_major_locator(MaxNLocator(6))
    axes.grid(axis="x")
    return to_svg(figure, "Final accuracy of every seed, a line of dots for each method")


@style()
def feature_plane(panels: Sequence[Panel], columns: int = 3) -> str:
    """Two-dimensional features: colour says the class, the marker old or new, lines are the class vectors."""
    figure, grid = _multiples(len(panels), columns, 3.4, 3.8)
    for axes, panel in zip(grid, panels, strict=True):
        _plane(axes, panel)
    handles = [
        Line2D([], [], ls="", marker="o", ms=4.5, mfc=class_colour(1, True), mec="none"),
        Line2D([], [], ls="", marker="^", ms=5, mfc="none", mec=class_colour(1, False), mew=1),
        Line2D([], [], color=FAINT, lw=1.2),
    ]
    figure.legend(handles, ["old class", "new class", "class vector"], loc="outside lower center", ncols=3)
    titles = ", ".join(panel.title for panel in panels)
    return to_svg(figure, f"Two-dimensional features of the test images: {titles}")


def _plane(axes: Axes, panel: Panel) -> None:
    old = {int(c): bool(o) for c, o in zip(panel.labels, panel.old, strict=True)}
    place = {c: sorted(k for k in old if old[k] == old[c]).index(c) for c in old}
    colours = {c: class_colour(place[c], old[c]) for c in sorted(old)}
    stride = max(1, -(-len(panel.points) // _MOST_POINTS))
    points, labels = panel.points[::stride], panel.labels[::stride]
    for c, colour in colours.items():
        look: dict[str, Any] = (
            {"marker": "o", "ms": 3.4, "mfc": colour, "mec": "none", "alpha": 0.65}
            if old[c]
            else {"marker": "^", "ms": 4, "mfc": "none", "mec": colour, "mew": 0.75, "alpha": 0.8}
        )
        axes.plot(*points[labels == c].T, ls="", **look)
    radius = float(np.abs(points).max(initial=1e-9))
    _class_vectors(axes, panel, colours, radius)
    limit = 1.3 * radius
    axes.set(title=plain(panel.title, 44), aspect="equal", xlim=(-limit, limit), ylim=(-limit, limit))
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set(visible=True, color=RULE)


def _class_vectors(axes: Axes, panel: Panel, colours: dict[int, str], radius: float) -> None:
    """Lines from the origin; names of neighbours that are nearly parallel step outwards so that both can be read."""
    angles = {c: float(np.arctan2(panel.directions[c, 1], panel.directions[c, 0])) for c in colours}
    level, before = 0, -np.inf
    for c in sorted(angles, key=lambda c: angles[c]):
        level = (level + 1) % 3 if angles[c] - before < np.radians(9) else 0
        before = angles[c]
        x, y = np.cos(before), np.sin(before)
        axes.plot([0, radius * x], [0, radius * y], color="white", lw=2.6, alpha=0.8, zorder=3)
        axes.plot([0, radius * x], [0, radius * y], color=colours[c], lw=1.3, zorder=3)
        name = plain(panel.names[c] if panel.names else str(c), 12)
        look: dict[str, Any] = {"fontsize": 8.5, "fontweight": "bold", "ha": "center", "va": "center_baseline"}
        distance = radius * (1.07 + 0.09 * level)
        axes.text(distance * x, distance * y, name, color=colours[c], zorder=4, **look)
    axes.plot(0, 0, "o", ms=2.5, color=INK, zorder=5)
