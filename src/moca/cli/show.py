"""What the commands print."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.console import Console
from rich.status import Status
from rich.table import Table
from rich.text import Text

from moca.paths import from_here

if TYPE_CHECKING:
    from moca.cli.parts import About
    from moca.engine.result import Result
    from moca.report.comparison import Comparison

UNLIMITED = 10_000
"""Columns of text in a file or a pipe, which has no width."""
console = Console()
if not console.is_terminal:
    console.width = UNLIMITED  # nothing is folded or left out there


def busy(doing: str) -> Status:
    """A context manager that shows a spinner on stderr, if it is a terminal."""
    return Console(stderr=True).status(f"{doing} ...")


def say(line: str, style: str = "") -> None:
    """Print a line verbatim, without markup; only the terminal may wrap it."""
    console.print(Text(line, style), soft_wrap=True)


def aside(line: str, style: str = "dim") -> None:
    """Print a line verbatim on stderr, for anything that is not a result."""
    Console(stderr=True).print(Text(line, style), soft_wrap=True)


def complain(line: str) -> None:
    """Print an error in red on stderr."""
    aside(f"moca: {line}", "red")


def in_bytes(size: float) -> str:
    """A size in bytes with a readable unit."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit in ("B", "kB") else f"{size:.1f} {unit}"


_IN_FULL = {
    "bwt": "backward transfer (BWT)",
    "fwt": "forward transfer (FWT)",
    "task_il_accuracy": "task-incremental accuracy",
}


def show_result(result: Result) -> None:
    """Print the numbers of one run and where its files are."""
    from moca.report.grouping import judged

    table = Table(box=None, show_header=False)
    for name, value in result.numbers().items():
        if math.isfinite(value):
            percent = name not in ("seconds", "images_per_second")
            title = _IN_FULL.get(name, name.replace("_", " "))
            table.add_row(title, f"{100 * value:.2f} %" if percent else f"{value:,.1f}")
    console.print(table)
    if result.settings.validation:
        say(f"On {judged(result.settings)}, not on the test images.")
    for note in result.notes:
        say(f"Note: {note}.")
    say(f"Run folder: {from_here(result.folder)}")


def show_comparison(comparison: Comparison) -> None:
    """Print mean and standard deviation of each method, the cost, notes, and where the files are."""
    from moca.report.chosen import Chosen
    from moca.report.comparison import notes
    from moca.report.labels import some

    if isinstance(comparison, Chosen):
        console.print("Held-out training images:", comparison.choosing)
        console.print(Text(f"{comparison.told}\n"))
        console.print("Test images:")
    console.print(comparison)
    if comparison.cost:
        for line in filter(None, (str(comparison.cost), comparison.cost.advice)):
            say(f"{line}.")
    for note, labels in notes(comparison.rows).items():
        methods = "" if labels == [row.label for row in comparison.rows] else f"{some(labels)}: "
        say(f"Note: {methods}{note}.")
    say(f"Folder: {from_here(comparison.folder)}")


def show_lines(listed: dict[str, dict[str, tuple[str, str]]], more: str) -> None:
    """Print, by kind, each name with its one-line description and paper; then where to find more."""
    table = Table(box=None, show_header=False)
    for title, entries in listed.items():
        table.add_row(Text(title, "bold"))
        for entry, (line, paper) in entries.items():
            table.add_row(f"  {entry}", Text.assemble(line, (f" ({paper})" if paper else "", "dim")))
    console.print(table)
    say(more)


def show_about(this: About) -> None:
    """Print the details of one thing that can be chosen by name."""
    console.print(Text.assemble((this.name, "bold"), f" ({this.kind}). {this.line}"))
    if this.paper:
        console.print(Text(f"Paper: {this.paper}"))
    if this.card:
        say(f"Card: {this.card}")
    if this.use:
        say(this.use)
    elif not this.options:
        console.print(Text(f"{this.name} has no options."))
    _rows("Options", this.options)
    _rows("Recipes by protocol; settings you give take precedence", this.recipes.items())
    _rows("Refuses" if this.kind == "learner" else "Refused by", this.refused)


def _rows(title: str, rows: Iterable[tuple[str, ...]]) -> None:
    table = Table(box=None, show_header=False)
    for first, *others in rows:
        table.add_row(Text(f"  {first}"), *map(Text, others))
    if table.row_count:
        console.print(Text(title, "bold"))
        console.print(table)
