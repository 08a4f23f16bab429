"""Analyses of several methods side by side: means over seeds, and which lines share a panel.

Both the page (`analysis_plots`) and printed figures (`analysis_figures`) are drawn from this.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev
from typing import Any

from moca.engine.folder import RunFolder
from moca.engine.result import Result
from moca.errors import MocaError, MocaWarning
from moca.measures.analysis import Analyses, Plot, read
from moca.measures.lead import ANALYSES, renamed
from moca.measures.record import lead
from moca.report.facets import MOST, facets
from moca.report.methods import Row, Setting
from moca.report.spread import Spread

_OF = ": "
"""Separates the thing from the number in a name such as `task 1: accuracy`."""
MARKED = 20
"""Most points of a line that is drawn with markers."""


@dataclass(frozen=True)
class Line:
    """One series of one method."""

    label: str
    """Its name in the legend of its panel."""
    place: int
    """Index of its colour."""
    series: str
    plot: Plot
    values: Any
    spread: Any = None
    """Standard deviations over seeds, in the same form as `values`."""
    seeds: int = 1


@dataclass(frozen=True)
class Panel:
    """Lines that share a pair of axes."""

    title: str
    lines: list[Line]

    @property
    def plot(self) -> Plot:
        """The plot that describes its axes."""
        return self.lines[0].plot

    @property
    def x(self) -> list[float]:
        """All x values of its lines, which may differ: joint training has one, other methods one per task."""
        return sorted({value for line in self.lines for value in line.plot.x.values})

    @property
    def marks(self) -> list[float]:
        """The x values that its lines mark."""
        return sorted({line.plot.mark for line in self.lines if line.plot.mark is not None})


@dataclass(frozen=True)
class Group:
    """A method with the analyses of its runs, one per seed."""

    label: str
    runs: list[Analyses]
    place: int = 0
    """Index of its colour."""

    def number(self, analysis: str, name: str) -> Spread:
        """Mean and standard deviation of a number over the runs that have it."""
        found = [run[analysis].numbers.get(name) for run in self.runs if analysis in run]
        return Spread.of([value for value in found if value is not None])

    def lines(self, analysis: str, name: str) -> list[Line]:
        """The series of a plot, averaged over seeds; if they cannot be averaged, those of the first seed."""
        plots = [run[analysis].plots[name] for run in self.runs if analysis in run and name in run[analysis].plots]
        if not plots:
            return []
        if plots[0].kind == "lines":
            plots = _at_common_x(plots)
        first = plots[0]
        alike = all(p.x == first.x and p.y == first.y and p.series.keys() == first.series.keys() for p in plots)
        if len(plots) == 1 or not alike or first.kind in ("points", "pictures"):
            return [Line(self.label, self.place, key, first, values) for key, values in first.series.items()]
        marks = [p.mark for p in plots if p.mark is not None]
        mean = replace(first, mark=fmean(marks) if marks else None)
        return [
            Line(self.label, self.place, key, mean, *_over_seeds([p.series[key] for p in plots]), len(plots))
            for key in first.series
        ]


def _at_common_x(plots: list[Plot]) -> list[Plot]:
    """The lines at the x values that all of these plots have: two versions of moca may have recorded other ranges.

    If there are none, the plots stay as they are.
    """
    common = [x for x in plots[0].x.values if all(x in plot.x.values for plot in plots)]
    if not common:
        return plots
    places = [[plot.x.values.index(x) for x in common] for plot in plots]
    return [
        replace(plot, x=replace(plot.x, values=common),
                series={name: [values[place] for place in at] for name, values in plot.series.items()})
        for plot, at in zip(plots, places, strict=True)
    ]  # fmt: skip


def _over_seeds(values: list[Any]) -> tuple[Any, Any]:
    """Elementwise mean and standard deviation of nested lists of the same shape; None where any element is None."""
    if isinstance(values[0], list):
        parts = [_over_seeds(list(part)) for part in zip(*values, strict=True)]
        return [mean for mean, _ in parts], [spread for _, spread in parts]
    return (None, None) if None in values else (fmean(values), stdev(values))


def groups(rows: Sequence[Row], only: Sequence[str] | None = None) -> list[Group]:
    """Read the analyses of these methods, all or only some, from finished runs or, if there are none, from any."""
    return [Group(row.label, [_analyses_of(result, only) for result in row.finished or row.results]) for row in rows]


def _analyses_of(result: Result, only: Sequence[str] | None) -> Analyses:
    """The analyses in a run's folder; none and a warning if the file is damaged, so that other runs are still shown."""
    try:
        every = read(RunFolder(result.folder), arrays=False)
    except MocaError as error:
        warnings.warn(MocaWarning(str(error)), stacklevel=2)
        return {}
    every |= {name: renamed(every[name]) for name in ANALYSES if name in every}
    if lead.NAME in every:
        every[lead.NAME] = lead.in_words(every[lead.NAME])
    return {name: analysis for name, analysis in every.items() if not only or name in only}


def shared_out(setting: Setting, methods: Sequence[Group]) -> list[tuple[str, list[Group]]]:
    """The methods of each figure with their colours there, and the figure's title."""
    known = {method.label: method for method in methods}
    rows = [row for row in setting.rows if row.label in known]
    return [
        (facet.title, [replace(known[row.label], place=place) for place, row in enumerate(facet.rows)])
        for facet in facets(setting, rows)
    ]


def analyses(groups: Sequence[Group]) -> Analyses:
    """Every analysis that some run has, by name, as the first such run has it; titles are the same in all."""
    found: Analyses = {}
    for run in (run for group in groups for run in group.runs):
        found |= {name: analysis for name, analysis in run.items() if name not in found}
    return found


def plots(groups: Sequence[Group], analysis: str) -> list[str]:
    """The names of all plots of an analysis."""
    return list(dict.fromkeys(p for g in groups for run in g.runs if analysis in run for p in run[analysis].plots))


def numbers(groups: Sequence[Group], analysis: str) -> list[str]:
    """The names of all numbers of an analysis."""
    return list(dict.fromkeys(n for g in groups for run in g.runs if analysis in run for n in run[analysis].numbers))


def plain_numbers(groups: Sequence[Group], analysis: str) -> list[str]:
    """The names of the numbers that do not belong to one of several things (see `grid`)."""
    return [name for name in numbers(groups, analysis) if _OF not in name]


def grid(groups: Sequence[Group], analysis: str) -> tuple[list[str], dict[str, list[str]]]:
    """If an analysis has the same numbers of several things: what they are, and for each thing their names in full."""
    pairs = [name.partition(_OF)[::2] for name in numbers(groups, analysis) if _OF in name]
    heads = list(dict.fromkeys(what for _, what in pairs))
    return heads, {thing: [f"{thing}{_OF}{what}" for what in heads] for thing, _ in pairs}


def panels(groups: Sequence[Group], analysis: str, plot: str) -> list[Panel]:
    """The panels of a plot.

    For several methods, there is one panel per series and one colour per method; for a single method, one panel has all
    its series. Matrices, points and pictures have one panel each.
    """
    every = [line for group in groups for line in group.lines(analysis, plot)]
    kind = every[0].plot.kind if every else ""
    if kind == "bars":
        every = _over_the_same_names(every)
    series = list(dict.fromkeys(line.series for line in every))
    by_series = [[line for line in every if line.series == name] for name in series]
    if kind in ("matrix", "points", "pictures"):
        named = len(series) > 1 or kind == "pictures"  # the series of pictures is their class
        return [Panel(line.label + f": {line.series}" * named, [line]) for lines in by_series for line in lines]
    if len({line.label for line in every}) > 1:
        return [Panel(name * (len(series) > 1), lines) for name, lines in zip(series, by_series, strict=True)]
    # Its series are not methods, so none has the baseline's grey.
    room = MOST - 1
    coloured = [replace(line, label=line.series, place=number % room + 1) for number, line in enumerate(every)]
    title = every[0].label * (len(groups) > 1) if every else ""
    return [Panel(title, coloured[start : start + room]) for start in range(0, len(coloured), room)]


def _over_the_same_names(bars: Sequence[Line]) -> list[Line]:
    """The bars of each method under all names that any of them has: methods may differ in their old classes."""
    names = list(dict.fromkeys(name for line in bars for name in line.plot.x.values))

    def ordered(line: Line, values: Sequence[float | None]) -> list[float | None]:
        return [*map(dict(zip(line.plot.x.values, values, strict=True)).get, names)]

    return [
        replace(line, plot=replace(line.plot, x=replace(line.plot.x, values=names)), values=ordered(line, line.values),
                spread=line.spread and ordered(line, line.spread))
        for line in bars
    ]  # fmt: skip


def heights(drawn: Sequence[Panel]) -> tuple[float, float]:
    """The common range of the y-axes of these panels, with some margin."""
    plot = drawn[0].plot
    if plot.diagonal:  # of two shares, beyond which bands may go
        return 0.0, 1.07
    ends = [0.0] * (plot.kind == "bars")
    for line in (line for panel in drawn for line in panel.lines):
        around = zip(line.values, line.spread or [0.0] * len(line.values), strict=True)
        ends += [v + sign * (s or 0.0) for v, s in around if v is not None for sign in (-1, 1)]
    if plot.y.log:
        ends = [math.log10(end) for end in ends if end > 0]
    low, high = min(ends, default=0.0), max(ends, default=1.0)
    room = 0.07 * (high - low) or 0.05 * abs(high) or 1.0
    floor, top = low - room * (low != 0 or plot.y.log), high + room
    return (10**floor, 10**top) if plot.y.log else (floor, top)


def widths(drawn: Sequence[Panel]) -> tuple[float, float] | None:
    """The common range of the x-axes of these panels if their plot is trimmed to its data; else None.

    It spans the x values at which any of the lines is not 0, and one more on each side.
    """
    if not drawn[0].plot.trim:
        return None
    lines = [line for panel in drawn for line in panel.lines]
    seen = [place for line in lines for place, value in enumerate(line.values) if value]
    x = max((line.plot.x.values for line in lines), key=len)
    return (x[max(0, min(seen) - 1)], x[min(len(x) - 1, max(seen) + 1)]) if seen else None


def shades(drawn: Sequence[Panel]) -> tuple[float, float]:
    """The values of the palest and the darkest shade of matrices: 0 and 1 for shares, else minimum and maximum."""
    known = [value for panel in drawn for row in panel.lines[0].values for value in row if value is not None]
    low, high = min(known, default=0.0), max(known, default=1.0)
    return (0.0, 1.0) if low >= 0 and high <= 1 else (low, high)


def old_classes(drawn: Sequence[Panel]) -> dict[int, bool]:
    """For every class among the points of these panels, whether it is old."""
    planes = [panel.lines[0].values for panel in drawn]
    return {c: was for points in planes for c, was in zip(points["class"], points["old"], strict=True)}
