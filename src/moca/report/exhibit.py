"""Sections of the page beyond accuracies: figures and tables under a title."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from moca.report.analysis_plots import of_panels
from moca.report.facets import colours
from moca.report.methods import Setting
from moca.report.plotting import Plot
from moca.report.side_by_side import Group, grid, groups, panels, plain_numbers, plots, shared_out
from moca.report.side_by_side import analyses as found_in
from moca.report.table import Cell, Table
from moca.report.tables import any_scale

_PLANE = (
    "Old classes are filled circles in cool colours, classes of the last task open triangles in warm ones; a line from "
    "the origin is the direction of a class vector, with the name of its class. Each panel has its own scale: only "
    "angles compare."
)


@dataclass(frozen=True)
class Exhibit:
    """A section of the page."""

    title: str
    caption: str = ""
    """What the section shows, and on which images."""
    figures: list[list[tuple[str, Plot]]] = field(default_factory=list)
    """Groups of figures that show the same thing, each figure with its title."""
    tables: list[Table] = field(default_factory=list)


def analyses(setting: Setting, only: Sequence[str] | None = None) -> list[Exhibit]:
    """One section per analysis in the run folders, averaged over seeds, each method in its colour."""
    every = groups(setting.finished, only)
    figures, exhibits = shared_out(setting, every), []
    held_out = f"Here the test images are {setting.judged}."
    for name, found in found_in(every).items():
        drawn = [
            [(f"{part} \N{EN DASH} {title}".strip(" \N{EN DASH}"), plot)
             for title, plot in of_panels(panels(methods, name, what), found.title)]
            for part, methods in figures
            for what in plots(methods, name)
        ]  # fmt: skip
        flat = [plot.kind == "points" for plot in found.plots.values()]
        caption = " ".join([found.about, *[_PLANE] * any(flat), *[held_out] * setting.held_out])
        exhibits.append(Exhibit(found.title, caption, drawn, _numbers(setting, every, name, found.title)))
    return exhibits


def _numbers(setting: Setting, methods: Sequence[Group], analysis: str, title: str) -> list[Table]:
    """A table with one row per method, and a detailed one if the analysis has the same numbers of several things."""
    places = dict(zip((row.label for row in setting.rows), colours(setting), strict=True))
    seeds = max((len(method.runs) for method in methods), default=1)
    caption = f"{title}{'; ± is the sample standard deviation over seeds' * (seeds > 1)}."

    def rows(names: Sequence[str], thing: str = "") -> Iterator[tuple[Cell, ...]]:
        for method in methods:
            spreads = [method.number(analysis, name) for name in names]
            if any(not math.isnan(spread.mean) for spread in spreads):
                title = method.label + f": {thing}" * bool(thing)
                yield Cell(title, colour=places[method.label]), *map(any_scale, spreads)

    plain, (heads, things) = plain_numbers(methods, analysis), grid(methods, analysis)
    found = {
        title: (plain, [*rows(plain)]),
        f"{title} in detail": (heads, [row for thing, names in things.items() for row in rows(names, thing)]),
    }
    return [
        Table(name, ("Method", *(one[:1].upper() + one[1:] for one in names)), made, caption, setting.title)
        for name, (names, made) in found.items()
        if made
    ]
