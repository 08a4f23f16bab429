"""Figures of analyses for print, drawn from what `Plot` says alone: several methods in one, a panel for each series."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

from moca.errors import MocaError
from moca.measures.analysis import Plot
from moca.measures.together import Drawn, Group
from moca.report.palette import class_colour, method_colour, method_marker

_INK, _FAINT, _RULE = "#24292f", "#6e7781", "#d9dde1"
_STYLE: dict[Any, Any] = {
    "pdf.fonttype": 42,
    "text.parse_math": False,
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "text.color": _INK,
    "axes.titlesize": 8,
    "axes.titlelocation": "left",
    "axes.labelsize": 8,
    "axes.labelcolor": _INK,
    "axes.edgecolor": _FAINT,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "xtick.color": _FAINT,
    "ytick.color": _FAINT,
    "xtick.labelcolor": _INK,
    "ytick.labelcolor": _INK,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.minor.width": 0.4,
    "ytick.minor.width": 0.4,
    "grid.color": _RULE,
    "grid.linewidth": 0.5,
    "legend.frameon": False,
    "legend.fontsize": 7.5,
}
_MOST = 8
"""Methods in a figure, so that no colour comes twice; the others are in the next one."""
_COLUMNS = 3
_NUMBERED = 12
"""Rows up to which the cells of a matrix have numbers, and categories up to which bars have their names."""
_MARKED = 20
"""Points up to which those of a line are marked."""
_LINE: dict[str, Any] = {"lw": 1.3, "ms": 3.5, "mec": "white", "mew": 0.5}


def draw(groups: Sequence[Group], folder: Path, suffix: str = "") -> list[Path]:
    """Every plot of these methods as PDF and PNG in a folder; the PDFs."""
    names = dict.fromkeys(
        (analysis, plot)
        for group in groups
        for run in group.runs
        for analysis, found in run.analyses.items()
        for plot in found.plots
    )
    written = []
    for analysis, name in names:
        drawn = [
            replace(there, place=place % _MOST)
            for place, group in enumerate(groups)
            if (there := group.plot(analysis, name)) is not None
        ]
        for part in range(0, len(drawn), _MOST):
            place = f"-{part // _MOST + 1}" if len(drawn) > _MOST else ""
            with style():
                figure = figure_of(drawn[part : part + _MOST], named=len(groups) > 1)
                written.append(_save(figure, folder, f"{name}{suffix}{place}"))
    return written


@contextmanager
def style() -> Iterator[None]:
    """The look of all figures."""
    with rc_context(_STYLE):
        yield


def _save(figure: Figure, folder: Path, name: str) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # what it found out holds for both
        figure.savefig(folder / f"{name}.png", dpi=300)
        figure.savefig(folder / f"{name}.pdf", metadata={"CreationDate": None})
    except OSError as error:
        raise MocaError(f"figures cannot be written to '{folder}': {error.strerror}; choose another --out") from None
    return folder / f"{name}.pdf"


def figure_of(drawn: Sequence[Drawn], named: bool = False) -> Figure:
    """One plot of some methods: of several, a panel for each series with a colour for each method; of one, all its
    series in one panel, with its name where it is one of several. Matrices and points have a panel each."""
    kind, several = drawn[0].plot.kind, len(drawn) > 1
    if kind == "matrix":
        return _matrices(drawn)
    if kind == "points":
        return _planes(drawn)
    series = list(dict.fromkeys(name for one in drawn for name in one.plot.series))
    panels = [[(one.label, one, name) for one in drawn if name in one.plot.series] for name in series]
    if not several:
        panels = [[(name, drawn[0], name) for name in series]]
    labels = [one.label for one in drawn] if several else series
    # The series of one method are no methods, so that none has the baseline's grey.
    looks = [one.place for one in drawn] if several else list(range(1, len(series) + 1))
    figure, grid = _grid(len(panels), *_size(drawn[0], len(labels)))
    for number, (axes, members) in enumerate(zip(grid, panels, strict=True)):
        entries = [(looks[labels.index(label)], one, name) for label, one, name in members]
        (_bars if kind == "bars" else _lines)(axes, entries)
        plot = drawn[0].plot
        spec = axes.get_subplotspec()
        axes.set(xlabel=plot.x.name, ylabel=plot.y.name if spec is None or spec.is_first_col() else "")
        if several and len(panels) > 1:
            axes.set_title(series[number])
    _share_heights(grid, plot.y.log)
    if len(labels) > 1:
        _legend(figure, labels, looks, drawn[0].plot, len(panels))
    if named and not several:
        grid[0].set_title(_short(drawn[0].label, 60))
    return figure


def _share_heights(grid: Sequence[Axes], log: bool) -> None:
    """The same heights in all panels, with some room."""
    drawn = np.concatenate([axes.dataLim.intervaly for axes in grid if np.isfinite(axes.dataLim.intervaly).all()])
    if len(drawn):
        low, high = (np.log10(drawn.min()), np.log10(drawn.max())) if log else (drawn.min(), drawn.max())
        room = 0.07 * (high - low) or 0.05 * abs(high) or 1.0
        floor = low - room * (log or low != 0)
        for axes in grid:
            axes.set_ylim(*((10**floor, 10 ** (high + room)) if log else (floor, high + room)))


def _size(one: Drawn, labels: int) -> tuple[float, float]:
    """Of a panel, in inches; many bars need room."""
    bars = len(one.plot.x.values) * labels if one.plot.kind == "bars" else 0
    return min(7.0, max(2.9, 0.09 * bars + 1)), 2.3 + 0.5 * (_long_names(one) and one.plot.kind == "bars")


def _grid(count: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    across = min(max(1, int(9 // width)), 2 if count == 4 else _COLUMNS, count)
    down = -(-count // across)
    figure = Figure((across * width, down * height), layout="constrained")
    return figure, [figure.add_subplot(down, across, place + 1) for place in range(count)]


def _numbers(values: Sequence[float | None]) -> Any:
    return np.array([math.nan if value is None else value for value in values], dtype=float)


def _lines(axes: Axes, entries: Sequence[tuple[int, Drawn, str]]) -> None:
    for place, one, name in entries:
        plot = one.plot
        x, y = np.array(plot.x.values, dtype=float), _numbers(plot.series[name])
        axes.plot(x, y, color=method_colour(place), marker=_marker(plot, place), **_LINE)
        if name in one.spreads:
            around = _numbers(one.spreads[name])
            axes.fill_between(x, y - around, y + around, color=method_colour(place), alpha=0.15, lw=0)
    plot = entries[0][1].plot
    for axis, scale, log in ((axes.yaxis, axes.set_yscale, plot.y.log), (axes.xaxis, axes.set_xscale, plot.x.log)):
        if log:
            scale("log")
            axis.set_major_formatter(FuncFormatter(_power))
            axis.set_minor_formatter(NullFormatter())
    if all(isinstance(value, int) for value in plot.x.values) and len(plot.x.values) <= _MARKED:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    if plot.mark is not None:
        axes.axvline(plot.mark, color=_FAINT, lw=0.8, ls=(0, (3, 3)), zorder=1)
    ends = min(plot.x.values), max(plot.x.values)
    if not plot.x.log:
        room = 0.03 * (ends[1] - ends[0]) or 0.5
        axes.set_xlim(ends[0] - room, ends[1] + room)
    if plot.diagonal:
        axes.plot([0, 1], [0, 1], color=_FAINT, lw=0.8, ls=(0, (3, 3)), zorder=1)
        axes.set_xlim(0, 1)
    axes.grid(axis="y")


def _bars(axes: Axes, entries: Sequence[tuple[int, Drawn, str]]) -> None:
    plot = entries[0][1].plot
    names, count = plot.x.values, len(entries)
    places, width = np.arange(len(names)), 0.8 / count
    for number, (place, one, name) in enumerate(entries):
        heights = _numbers(one.plot.series[name])
        if len(heights) != len(names):
            continue
        x = places + (number - (count - 1) / 2) * width
        axes.bar(x, np.nan_to_num(heights), 0.92 * width, color=method_colour(place))
        if name in one.spreads:
            axes.errorbar(x, heights, _numbers(one.spreads[name]), fmt="none", ecolor=_INK, elinewidth=0.7, capsize=1.5)
        if len(names) * count <= 8 and name not in one.spreads:
            for at, height in zip(x, heights, strict=True):
                if not math.isnan(height):
                    axes.annotate(f"{height:.3g}", (at, height), (0, 1.5), textcoords="offset points", ha="center",
                                  va="bottom", fontsize=6.5)  # fmt: skip
    if len(names) <= _NUMBERED:
        axes.set_xticks(places, [_short(name) for name in names])
    else:
        axes.xaxis.set_major_locator(MaxNLocator(10, integer=True))
    if _long_names(entries[0][1]):
        axes.tick_params("x", labelrotation=40)
        for text in axes.get_xticklabels():
            text.set_horizontalalignment("right")
            text.set_rotation_mode("anchor")
    axes.tick_params("x", length=0)
    axes.axhline(0, color=_FAINT, lw=0.6)
    axes.margins(y=0.1)
    axes.grid(axis="y")


def _long_names(one: Drawn) -> bool:
    """Whether the names below bars have to be turned."""
    names = [str(name) for name in one.plot.x.values]
    return len(names) <= _NUMBERED and len(names) > 2 and sum(map(len, names)) > 30


def _matrices(drawn: Sequence[Drawn]) -> Figure:
    panels = [(one, name) for one in drawn for name in one.plot.series]
    values = [np.array([_numbers(row) for row in one.plot.series[name]]) for one, name in panels]
    rows = len(values[0])
    side = 2.5 if rows <= _NUMBERED else 3.4
    figure, grid = _grid(len(panels), side + 0.5, side)
    shares = all(np.nanmin(v) >= 0 and np.nanmax(v) <= 1 for v in values)
    low, high = (0.0, 1.0) if shares else (min(np.nanmin(v) for v in values), max(np.nanmax(v) for v in values))
    image = None
    for axes, (one, name), matrix in zip(grid, panels, values, strict=True):
        image = axes.imshow(matrix, cmap="Blues", vmin=low, vmax=max(high, low + 1e-9), aspect="equal")
        _cells(axes, matrix, low, high, shares)
        axes.set(xlabel=one.plot.x.name, ylabel=one.plot.y.name)
        if len(panels) > 1:
            axes.set_title(_short(one.label if len(one.plot.series) == 1 else f"{one.label}: {name}", 44))
        _ticks(axes, one.plot.x.values, one.plot.y.values)
    assert image is not None
    bar = figure.colorbar(image, ax=grid, shrink=0.85, aspect=22, pad=0.02)
    bar.set_label(drawn[0].plot.value)
    bar.outline.set_visible(False)
    return figure


def _cells(axes: Axes, matrix: Any, low: float, high: float, shares: bool) -> None:
    axes.spines[:].set_visible(False)
    if len(matrix) > _NUMBERED:
        return
    for (i, j), value in np.ndenumerate(matrix):
        if not math.isnan(value):
            dark = (value - low) / max(high - low, 1e-9) > 0.55
            text = f"{100 * value:.0f}" if shares else f"{value:.1f}"
            colour = "white" if dark else _FAINT if shares and value < 0.005 else _INK
            axes.text(j, i, text, ha="center", va="center", fontsize=6.5, color=colour)


def _ticks(axes: Axes, x: Sequence[Any], y: Sequence[Any]) -> None:
    if len(x) <= 2 * _NUMBERED:
        words = sum(len(str(name)) for name in x) > 40
        axes.set_xticks(range(len(x)), [_short(name, 14) for name in x], rotation=90 if words else 0)
        axes.set_yticks(range(len(y)), [_short(name, 14) for name in y])
    axes.tick_params(length=0)


def _planes(drawn: Sequence[Drawn]) -> Figure:
    """Features in the plane: a row for each series, a column for each method."""
    series = list(drawn[0].plot.series)
    figure = Figure((2.6 * len(drawn), 2.6 * len(series)), layout="constrained")
    colours = _class_colours([points for one in drawn for points in one.plot.series.values()])
    for row, name in enumerate(series):
        for column, one in enumerate(drawn):
            axes = figure.add_subplot(len(series), len(drawn), row * len(drawn) + column + 1)
            _points(axes, one.plot.series[name], colours)
            axes.set_title(f"{one.label}, {name}" if len(drawn) > 1 else name)
    handles = [Line2D([], [], ls="", marker="o", ms=4, mfc=class_colour(1, True), mec="none"),
               Line2D([], [], ls="", marker="^", ms=4, mfc="none", mec=class_colour(1, False), mew=0.9),
               Line2D([], [], color=_FAINT, lw=1.1)]  # fmt: skip
    figure.legend(handles, ["old class", "new class", "class vector"], loc="outside lower center", ncols=3)
    return figure


def _class_colours(planes: Sequence[dict[str, Any]]) -> dict[int, str]:
    """Of each class, the same in all panels."""
    old = {c: was for points in planes for c, was in zip(points["class"], points["old"], strict=True)}
    return {c: class_colour(sorted(k for k in old if old[k] == old[c]).index(c), old[c]) for c in old}


def _points(axes: Axes, points: dict[str, Any], colours: dict[int, str]) -> None:
    x, y = np.array(points["x"]), np.array(points["y"])
    labels, old = np.array(points["class"]), np.array(points["old"], dtype=bool)
    # Limits that a few far ones do not decide.
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
    axes.spines[:].set(visible=True, color=_RULE)


def _marker(plot: Plot, place: int) -> str:
    """Only where the points of a line can be told apart."""
    return method_marker(place) if len(plot.x.values) <= _MARKED else ""


def _legend(figure: Figure, labels: Sequence[str], looks: Sequence[int], plot: Plot, panels: int) -> None:
    handles = [
        Patch(color=method_colour(place))
        if plot.kind == "bars"
        else Line2D([], [], color=method_colour(place), marker=_marker(plot, place), **_LINE)
        for place in looks
    ]
    room = 52 * min(panels, _COLUMNS)
    across = max(1, min(len(labels), room // (max(len(label) for label in labels) + 6)))
    figure.legend(handles, [_short(label, 60) for label in labels], loc="outside lower center", ncols=across)


def _power(value: float, place: int | None = None) -> str:
    """A power of ten as a logarithmic axis has it."""
    return "10" + f"{round(math.log10(value))}".translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def _short(name: Any, length: int = 18) -> str:
    """A name as a figure can show it; a leading underscore would hide it from the legend."""
    text = re.sub(r"[^ -~\u00a0-\uffff]", " ", str(name))
    text = text if len(text) <= length else text[: length - 1] + "…"
    return "\u200b" + text if text.startswith("_") else text
