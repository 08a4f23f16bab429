"""What a page shows beside accuracies: figures and tables under a title."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from moca.report.analysis_plots import of_panels
from moca.report.comparison import Setting
from moca.report.facets import colours
from moca.report.plots import Plot
from moca.report.table import Cell, Table
from moca.report.tables import any_scale
from moca.report.together import Group, groups, numbers, panels, plots, shared_out
from moca.report.together import analyses as found_in

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
    """What is to be seen, and on which images."""
    figures: list[list[tuple[str, Plot]]] = field(default_factory=list)
    """Those that show the same thing together, each with its title."""
    tables: list[Table] = field(default_factory=list)


def analyses(setting: Setting, only: Sequence[str] | None = None) -> list[Exhibit]:
    """What the folders of the runs hold of what happened inside them, seeds averaged, each method in its colour."""
    every = groups(setting.finished, only)
    figures, exhibits = shared_out(setting, every), []
    for name, found in found_in(every).items():
        drawn = [
            [(f"{part} \N{EN DASH} {title}".strip(" \N{EN DASH}"), plot)
             for title, plot in of_panels(panels(methods, name, what), found.title)]
            for part, methods in figures
            for what in plots(methods, name)
        ]  # fmt: skip
        flat = [plot.kind == "points" for plot in found.plots.values()]
        caption = " ".join([found.about, *[_PLANE] * any(flat), *_held_out(setting)])
        exhibits.append(Exhibit(found.title, caption, drawn, _numbers(setting, every, name, found.title)))
    return exhibits


def _held_out(setting: Setting) -> list[str]:
    return [f"Here the test images are {setting.judged}."] * bool(setting.results[0].settings.validation)


def _numbers(setting: Setting, methods: Sequence[Group], analysis: str, title: str) -> list[Table]:
    names = numbers(methods, analysis)
    places = dict(zip((row.label for row in setting.rows), colours(setting), strict=True))
    rows = []
    for method in methods:
        spreads = [method.number(analysis, name) for name in names]
        if any(not math.isnan(spread.mean) for spread in spreads):
            rows.append((Cell(method.label, colour=places[method.label]), *map(any_scale, spreads)))
    head = ("Method", *(name[:1].upper() + name[1:] for name in names))
    seeds = max((len(method.runs) for method in methods), default=1)
    caption = f"{title}{'; ± is the sample standard deviation over seeds' * (seeds > 1)}."
    return [Table(title, head, rows, caption, setting.title)] if rows else []
