"""Figures of analyses for print, drawn with matplotlib only from the description in `Plot`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter, PercentFormatter

from moca.measures.analysis import Plot
from moca.measures.pictures import pixels
from moca.report.labels import named_places, wrapped
from moca.report.methods import Setting
from moca.report.palette import LOOKS, class_colours, colours_of
from moca.report.printing import COLUMN, DASHES, FAINT, INK, PAGE, RULE, legend, over_seeds, save, shown, style, y_label
from moca.report.side_by_side import (
    MARKED,
    Line,
    Panel,
    analyses,
    groups,
    heights,
    old_classes,
    panels,
    plots,
    shades,
    shared_out,
    widths,
)

_NUMBERED = 12
"""Largest matrix, in rows, whose cells show numbers; also the most tick labels of its rows, or of bars."""
_LINE: dict[str, Any] = {"lw": 1.3, "ms": 3.5, "mec": "white", "mew": 0.5}


def draw(setting: Setting, folder: Path, before: str = "", only: Sequence[str] | None = None) -> list[Path]:
    """Draw every plot of these methods into a folder, as PDF and PNG; file names start with `before`."""
    written, drawn = [], shared_out(setting, groups(setting.rows, only))
    for part, (_, shared) in enumerate(drawn, 1):
        methods = [replace(method, label=setting.in_print[method.label]) for method in shared]
        for analysis in analyses(methods):
            for name in plots(methods, analysis):
                figure = figure_of(panels(methods, analysis, name))
                written += save(figure, folder, f"{before}{name}{f'-{part}' * (len(drawn) > 1)}")
    return written


@style()
def figure_of(drawn: Sequence[Panel]) -> Figure:
    """A figure with the panels of one plot."""
    plot = drawn[0].plot
    if plot.kind == "matrix":
        return _matrices(drawn)
    if plot.kind == "points":
        return _planes(drawn)
    if plot.kind == "pictures":
        return _pictures(drawn)
    lines = {line.label: line for panel in drawn for line in panel.lines}
    bars = len(plot.x.values) * len(lines) if plot.kind == "bars" else 0
    figure, grid = _grid(len(drawn), 0.6 + 0.09 * bars, 2.1 + 0.5 * (bars > 0 and _long_names(plot)))
    for axes, panel in zip(grid, drawn, strict=True):
        (_bars if plot.kind == "bars" else _lines)(axes, panel)
        axes.set(xlabel=_folded(axes, plot.x.name), ylabel=y_label(plot.y.name) if _first(axes) else "")
        axes.set_title(_folded(axes, panel.title))
        axes.set_ylim(*heights(drawn))
        if x_range := widths(drawn):
            axes.set_xlim(*x_range)
    _legend(figure, [line for panel in drawn for line in panel.lines])
    return figure


def _grid(count: int, least: float, height: float) -> tuple[Figure, list[Axes]]:
    """A figure of panels that are at least so wide: as wide as a page, or as a column if one panel fits there."""
    across = min(int(PAGE // least) or 1, 2 if count == 4 else 3, count)
    down = -(-count // across)
    width = COLUMN if across == 1 and least <= COLUMN else PAGE
    figure = Figure((width, down * height), layout="constrained")
    return figure, [figure.add_subplot(down, across, place + 1) for place in range(count)]


def _first(axes: Axes) -> bool:
    """Whether this is the first panel of its row."""
    return axes.get_subplotspec().is_first_col()  # type: ignore[union-attr]


def _folded(axes: Axes, text: str) -> str:
    """A text above or below a panel, wrapped to its width."""
    inches = axes.get_position().width * axes.get_figure(root=True).get_figwidth()  # type: ignore[union-attr]
    return "\n".join(wrapped(text, max(12, int(16 * inches))))


def _numbers(values: Sequence[float | None]) -> Any:
    return np.array([math.nan if value is None else value for value in values], dtype=float)


def _lines(axes: Axes, panel: Panel) -> None:
    for line in panel.lines:
        x, y = np.array(line.plot.x.values, dtype=float), _numbers(line.values)
        axes.plot(x, y, **_look(line))
        if line.spread:
            around = _numbers(line.spread)
            axes.fill_between(x, y - around, y + around, color=LOOKS[line.place].light, alpha=0.15, lw=0)
    plot = panel.plot
    for axis, scale, log in ((axes.yaxis, axes.set_yscale, plot.y.log), (axes.xaxis, axes.set_xscale, plot.x.log)):
        if log:
            scale("log")
            axis.set_major_formatter(FuncFormatter(_power))
            axis.set_minor_formatter(NullFormatter())
    if all(isinstance(value, int) for value in panel.x) and len(panel.x) <= MARKED:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    for mark in panel.marks:
        axes.axvline(mark, color=FAINT, lw=0.8, ls=(0, (3, 3)), zorder=1)
    if not plot.x.log:
        first, last = panel.x[0], panel.x[-1]
        room = 0.03 * (last - first) or 0.5
        axes.set_xlim(first - room, last + room)
    if plot.diagonal:
        axes.plot([0, 1], [0, 1], color=FAINT, lw=0.8, ls=(0, (3, 3)), zorder=1)
        axes.set_xlim(0, 1)
    axes.grid(axis="y")


def _bars(axes: Axes, panel: Panel) -> None:
    plot, count = panel.plot, len(panel.lines)
    names = plot.x.values
    places, width = np.arange(len(names)), 0.8 / count
    for number, line in enumerate(panel.lines):
        heights = _numbers(line.values)
        x = places + (number - (count - 1) / 2) * width
        axes.bar(x, np.nan_to_num(heights), 0.92 * width, color=LOOKS[line.place].light)
        if line.spread:
            axes.errorbar(x, heights, _numbers(line.spread), fmt="none", ecolor=INK, elinewidth=0.7, capsize=1.5)
        elif len(names) * count <= 8:
            for at, height in zip(x, heights, strict=True):
                if not math.isnan(height):
                    axes.annotate(f"{height:.3g}", (at, height), (0, 1.5), textcoords="offset points", ha="center",
                                  va="bottom", fontsize=6.5)  # fmt: skip
    axes.set_xticks(*_tick_labels(names, 18))
    if _long_names(plot):
        axes.tick_params("x", labelrotation=40)
        for text in axes.get_xticklabels():
            text.set_horizontalalignment("right")
            text.set_rotation_mode("anchor")
    axes.tick_params("x", length=0)
    axes.axhline(0, color=FAINT, lw=0.6)
    axes.grid(axis="y")


def _tick_labels(names: Sequence[Any], length: int, most: int = _NUMBERED) -> tuple[Sequence[int], list[str]]:
    """Positions and texts of tick labels: all names, or evenly spaced ones if there are more than `most`."""
    at = named_places(len(names), most)
    return at, [shown(str(names[place]), length) for place in at]


def _long_names(plot: Plot) -> bool:
    """Whether the names below bars are so long that they must be rotated."""
    _, names = _tick_labels(plot.x.values, 18)
    return len(names) > 2 and sum(map(len, names)) > 30


def _matrices(drawn: Sequence[Panel]) -> Figure:
    values = [np.array([_numbers(row) for row in panel.lines[0].values]) for panel in drawn]
    low, high = shades(drawn)
    small = 10 if (low, high) == (0, 1) else 6  # shares have two digits
    side = 2.1 if len(values[0]) <= small else 3.0
    figure, grid = _grid(len(drawn), side, side + 0.4 * (len(drawn) > 1))
    titles = [_folded(axes, panel.title) * (len(drawn) > 1) for axes, panel in zip(grid, drawn, strict=True)]
    _, names = _ticks(drawn[0].plot.x.values)
    turned = sum(map(len, names)) > 40
    more = 0.15 * max(title.count("\n") for title in titles) + 0.065 * max(map(len, names)) * turned
    figure.set_figheight(figure.get_figheight() + more * len({axes.get_position().y0 for axes in grid}))
    figure.set_layout_engine("compressed")
    image = None
    for axes, panel, title, matrix in zip(grid, drawn, titles, values, strict=True):
        image = axes.imshow(matrix, cmap="Blues", vmin=low, vmax=max(high, low + 1e-9), aspect="equal")
        _cells(axes, matrix, low, high)
        axes.set(xlabel=panel.plot.x.name, ylabel=panel.plot.y.name if _first(axes) else "", title=title)
        axes.set_xticks(*_ticks(panel.plot.x.values), rotation=90 * turned)
        axes.set_yticks(*_ticks(panel.plot.y.values))
        axes.tick_params(length=0, labelleft=_first(axes) or panel.plot.y.values != drawn[0].plot.y.values)
    assert image is not None
    bar = figure.colorbar(image, ax=grid, shrink=0.85, aspect=22, pad=0.02)
    bar.set_label(drawn[0].plot.value + " (%)" * ((low, high) == (0, 1)))
    if (low, high) == (0, 1):  # as the numbers in the cells
        bar.ax.yaxis.set_major_formatter(PercentFormatter(1, symbol=None))
    bar.outline.set_visible(False)
    legend(figure, [], [], over_seeds((panel.lines[0].seeds for panel in drawn), spread=False))
    return figure


def _cells(axes: Axes, matrix: Any, low: float, high: float) -> None:
    axes.spines[:].set_visible(False)
    shares = (low, high) == (0, 1)
    if len(matrix) > _NUMBERED:
        return
    for (i, j), value in np.ndenumerate(matrix):
        if not math.isnan(value):
            dark = (value - low) / max(high - low, 1e-9) > 0.55
            text = f"{100 * value:.0f}" if shares else f"{value:.1f}"
            colour = "white" if dark else FAINT if shares and value < 0.005 else INK
            axes.text(j, i, text, ha="center", va="center", fontsize=6.5, color=colour)


def _ticks(names: Sequence[Any]) -> tuple[Sequence[int], list[str]]:
    """Positions and texts of the tick labels of a matrix: more of words, which are turned, than of numbers."""
    return _tick_labels(names, 14, 2 * _NUMBERED if any(len(str(name)) > 2 for name in names) else _NUMBERED)


def _planes(drawn: Sequence[Panel]) -> Figure:
    """Two-dimensional features: one row per series, one column per method."""
    across = len({panel.lines[0].label for panel in drawn})
    down = -(-len(drawn) // across)
    side = min(2.6, PAGE / across)
    figure = Figure((side * across, side * down), layout="constrained")
    colours = colours_of(old_classes(drawn))
    for number, panel in enumerate(drawn, 1):
        axes = figure.add_subplot(down, across, number)
        _points(axes, panel.lines[0].values, {c: light for c, (light, _) in colours.items()})
        axes.set_title(_folded(axes, panel.title if across > 1 else panel.lines[0].series))
    cool, warm = class_colours(1, True)[0], class_colours(1, False)[0]
    handles = [Line2D([], [], ls="", marker="o", ms=4, mfc=cool, mec="none"),
               Line2D([], [], ls="", marker="^", ms=4, mfc="none", mec=warm, mew=0.9),
               Line2D([], [], color=FAINT, lw=1.1)]  # fmt: skip
    figure.legend(handles, ["old class", "new class", "class vector"], loc="outside lower center", ncols=3)
    return figure


def _points(axes: Axes, points: dict[str, Any], colours: dict[int, str]) -> None:
    x, y = np.array(points["x"]), np.array(points["y"])
    labels, old = np.array(points["class"]), np.array(points["old"], dtype=bool)
    # Limits that a few outliers do not determine.
    limit = 1.15 * float(np.quantile(np.hypot(x, y), 0.995)) if len(x) else 1.0
    for was_old in (False, True):
        few = (old == was_old).sum() < 60
        for c in sorted(set(labels[old == was_old].tolist())):
            mine, colour = (labels == c) & (old == was_old), colours[c]
            look: dict[str, Any] = (
                {"marker": "o", "ms": 4.5 if few else 2.6, "mfc": colour, "mec": "none", "alpha": 0.7}
                if was_old
                else {"marker": "^", "ms": 2.8, "mfc": "none", "mec": colour, "mew": 0.5, "alpha": 0.7}
            )
            axes.plot(x[mine], y[mine], ls="", **look, zorder=2 + was_old)
            if c < len(points["vectors"]):
                vector = np.array(points["vectors"][c])
                end = 0.93 * limit * vector / max(float(np.hypot(*vector)), 1e-12)
                axes.plot([0, end[0]], [0, end[1]], color=colour, lw=1.0, zorder=5)
    axes.set(aspect="equal", xlim=(-limit, limit), ylim=(-limit, limit))
    axes.locator_params(nbins=5)
    axes.spines[:].set(visible=True, color=RULE)


def _pictures(drawn: Sequence[Panel]) -> Figure:
    """Rows of pictures, each row with a name; adjacent panels with the same row names show them only once."""
    across, side = min(2, len(drawn)), 0.32
    down = -(-len(drawn) // across)
    rows, columns = (max(len(getattr(panel.plot, axis).values) for panel in drawn) for axis in ("y", "x"))
    figure = Figure((across * (side * columns + 0.1) + 1.5, down * (side * rows + 0.45)), layout="constrained")
    for number, panel in enumerate(drawn):
        axes, x, y = figure.add_subplot(down, across, number + 1), panel.plot.x.values, panel.plot.y.values
        extent = (0, len(x), len(y), 0)
        axes.imshow(pixels(panel.lines[0].values), interpolation="nearest", extent=extent, aspect="equal")
        shared = number % across and y == drawn[number - 1].plot.y.values
        axes.set_title(_folded(axes, panel.title))
        axes.set_xticks([place + 0.5 for place in range(len(x))], [shown(str(name)) for name in x])
        axes.set_yticks([] if shared else [place + 0.5 for place in range(len(y))])
        axes.set_yticklabels([] if shared else [shown(str(name)) for name in y])
        axes.tick_params(length=0, labelsize=6.5)
        axes.spines[:].set_visible(False)
    return figure


def _look(line: Line) -> dict[str, Any]:
    """The style of a line; with markers only if it has few points."""
    look = LOOKS[line.place]
    marker = look.marker if len(line.plot.x.values) <= MARKED else ""
    return {"color": look.light, "ls": DASHES[look.dash], "marker": marker, **_LINE}


def _legend(figure: Figure, lines: Sequence[Line]) -> None:
    """Name the lines, if there are several, and say of how many seeds they are."""
    known = {line.label: line for line in lines}
    named = known if len(known) > 1 else {}
    handles = [
        Patch(color=LOOKS[line.place].light) if line.plot.kind == "bars" else Line2D([], [], **_look(line))
        for line in named.values()
    ]
    legend(figure, handles, [*named], over_seeds(line.seeds for line in lines))


def _power(value: float, place: int | None = None) -> str:
    """A power of ten as a label of a logarithmic axis, with a superscript exponent."""
    return "10" + f"{round(math.log10(value))}".translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
