"""The numbers of analyses as tables that fit a terminal of any width."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from moca.cli.show import UNLIMITED
from moca.measures.confusion import OVER_IMAGES
from moca.report.labels import folded
from moca.report.side_by_side import analyses, grid, plain_numbers
from moca.report.tables import any_scale

if TYPE_CHECKING:
    from moca.report.side_by_side import Group

_GAP = 2
"""Spaces between the columns of a table."""


def tables(title: str, methods: Sequence[Group], console: Console) -> Iterator[Table | Text]:
    """All numbers: one column per method or, if the terminal is too narrow for that, one row per method."""
    seeds = {len(method.runs) for method in methods}
    same = f"; mean ± standard deviation of {max(seeds)} seeds" if len(seeds) == 1 and max(seeds) > 1 else ""
    labels = [_label(method) if not same else method.label for method in methods]
    yield Text(title + same, "italic")
    side = _side_by_side(labels, methods)
    wide = console.options.update(width=UNLIMITED)
    if side.row_count and console.measure(side, options=wide).maximum <= console.width:
        yield side
    elif side.row_count:
        yield from _transposed(labels, methods, console.width)
    if "confusion" in analyses(methods):
        yield Text(OVER_IMAGES, "dim")
    for name, found in analyses(methods).items():
        for label, method in zip(labels, methods, strict=True):
            if table := _grid(method, name):
                yield Text(found.title + f", {label}" * (len(methods) > 1), "bold")
                yield table


def _label(method: Group) -> str:
    seeds = len(method.runs)
    return method.label + (f" ({seeds} seeds)" if seeds > 1 else "")


def _side_by_side(labels: Sequence[str], methods: Sequence[Group]) -> Table:
    """One row per number."""
    table = Table(box=None)
    table.add_column("", no_wrap=True)
    for label in labels:
        table.add_column(Text(label), justify="right", no_wrap=True)
    for name, found in analyses(methods).items():
        names = plain_numbers(methods, name)
        if names:
            table.add_row(Text(found.title, "bold"))
        for number in names:
            table.add_row(Text(f"  {number}"), *(any_scale(method.number(name, number)).whole for method in methods))
    return table


def _transposed(labels: Sequence[str], methods: Sequence[Group], width: int) -> Iterator[Table | Text]:
    """For each analysis, one row per method that has it; columns that do not fit continue in a table below."""
    every = ["\n".join(folded(label, max(20, width // 2))) for label in labels]
    room = width - max(len(line) for name in every for line in name.split("\n")) - _GAP
    for analysis, found in analyses(methods).items():
        having = [place for place, method in enumerate(methods) if any(analysis in run for run in method.runs)]
        names = [every[place] for place in having]
        columns = {
            number: [any_scale(methods[place].number(analysis, number)).whole for place in having]
            for number in plain_numbers(methods, analysis)
        }
        if columns:
            yield Text(found.title, "bold")
        for part in _fitting(columns, room):
            table = Table(box=None, padding=(0, _GAP, 0, 0))
            table.add_column("", no_wrap=True)
            for number, values in part.items():
                size = _size(number, values)
                table.add_column(Text(number), justify="right", vertical="bottom", min_width=size, max_width=size)
            for name, *cells in zip(names, *part.values(), strict=True):
                table.add_row(Text(name), *cells)
            yield table


def _fitting(columns: dict[str, list[str]], room: int) -> Iterator[dict[str, list[str]]]:
    """The columns in order, split into groups that each fit into `room`."""
    part: dict[str, list[str]] = {}
    left = room
    for number, values in columns.items():
        needed = _size(number, values) + _GAP
        if part and needed > left:
            yield part
            part, left = {}, room
        part[number] = values
        left -= needed
    if part:
        yield part


def _size(number: str, values: Sequence[str]) -> int:
    """The width of a column: its heading may wrap between words, its values may not."""
    return max(map(len, (*number.split(), *values)))


def _grid(method: Group, analysis: str) -> Table | None:
    """One row for each thing that the analysis has the same numbers of, such as each task; None if there are none."""
    heads, things = grid([method], analysis)
    if not things:
        return None
    table = Table(box=None)
    table.add_column("", no_wrap=True)
    for what in heads:
        table.add_column(Text(what), justify="right")
    for thing, names in things.items():
        values = (any_scale(method.number(analysis, name)).whole for name in names)
        table.add_row(Text(f"  {thing}"), *values)
    return table
