"""What the commands print."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.console import Console
from rich.status import Status
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from moca.cli.parts import About
    from moca.engine.result import Result
    from moca.report.comparison import Comparison

console = Console()


def busy(doing: str) -> Status:
    """Around what takes seconds: a terminal shows that something goes on, a file nothing."""
    return Console(stderr=True).status(f"{doing} ...")


def show_result(result: Result) -> None:
    """The numbers of one run and where its files are."""
    from moca.report.sameness import judged

    table = Table(box=None, show_header=False)
    for name, value in result.numbers().items():
        if math.isfinite(value):
            percent = name not in ("seconds", "images_per_second")
            table.add_row(name.replace("_", " "), f"{100 * value:.2f} %" if percent else f"{value:,.1f}")
    console.print(table)
    if result.settings.validation:
        console.print(f"On {judged(result.settings)}, not on the test images.", soft_wrap=True, highlight=False)
    for note in result.notes:
        console.print(f"Note: {note}.", soft_wrap=True)
    console.print(f"Run folder: {result.folder}", soft_wrap=True, highlight=False)


def show_comparison(comparison: Comparison) -> None:
    """Mean and standard deviation of each method, what they cost, and where the files are."""
    from moca.engine.alike import SHARED, SHARED_IN_SHORT
    from moca.report.chosen import Chosen

    if isinstance(comparison, Chosen):
        console.print("Held-out training images:", comparison.choosing)
        console.print(Text(f"{comparison.told}\n"))
        console.print("Test images:")
    console.print(comparison)
    if comparison.cost:
        console.print(f"{comparison.cost}.", soft_wrap=True, highlight=False)
    by_note: dict[str, list[str]] = {}
    for row in comparison.rows:
        for note in dict.fromkeys(note for result in row.results for note in result.notes):
            labels = by_note.setdefault(SHARED_IN_SHORT if note.startswith(SHARED) else note, [])
            labels += [row.label] * (row.label not in labels)
    for note, labels in by_note.items():
        of = "" if len(labels) == len(comparison.rows) else f"{', '.join(labels)}: "
        console.print(Text(f"Note: {of}{note}."), soft_wrap=True)
    console.print(f"Folder: {comparison.folder}", soft_wrap=True, highlight=False)


def show_lines(listed: dict[str, dict[str, tuple[str, str]]], more: str) -> None:
    """By kind each name, with a line about it and its paper in short; then where to find more."""
    table = Table(box=None, show_header=False)
    for title, entries in listed.items():
        table.add_row(Text(title, "bold"))
        for entry, (line, paper) in entries.items():
            table.add_row(f"  {entry}", Text.assemble(line, (f" ({paper})" if paper else "", "dim")))
    Console().print(table)
    Console().print(Text(more), soft_wrap=True)


def show_about(this: About) -> None:
    """One thing that can be chosen by name."""
    print_ = Console(highlight=False).print
    print_(Text.assemble((this.name, "bold"), f" ({this.kind}). {this.line}"))
    if this.paper:
        print_(Text(f"Paper: {this.paper}"))
    if this.card:
        print_(Text(f"Card: {this.card}"), soft_wrap=True)
    if this.use:
        print_(Text(this.use), soft_wrap=True)
    elif not this.options:
        print_(Text(f"{this.name} has no options."))
    _rows("Options", this.options)
    _rows("Recipes by protocol; what is given wins", this.recipes.items())
    _rows("Refuses" if this.kind == "learner" else "Refused by", this.refused)


def _rows(title: str, rows: Iterable[tuple[str, ...]]) -> None:
    table = Table(box=None, show_header=False)
    for first, *others in rows:
        table.add_row(Text(f"  {first}"), *map(Text, others))
    if table.row_count:
        Console().print(Text(title, "bold"))
        Console(highlight=False).print(table)
