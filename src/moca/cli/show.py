"""What the commands print."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.box import SIMPLE
from rich.console import Console
from rich.filesize import decimal
from rich.status import Status
from rich.table import Column, Table
from rich.text import Text

from moca.cli.hints import as_options
from moca.paths import from_here
from moca.wording import counted

if TYPE_CHECKING:
    from moca.cli.parts import About
    from moca.engine.intent import Intent
    from moca.engine.plan import Plan
    from moca.engine.result import Result
    from moca.report.comparison import Comparison

UNLIMITED = 10_000
"""Columns of text in a file or a pipe, which has no width."""
console = Console()
if not console.is_terminal:
    console.width = UNLIMITED  # nothing is folded or left out there

_SHORTEST = "moca compare --perturb none gaussian wap"
"""A short command that compares methods."""


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


def in_bytes(size: int) -> str:
    """A size in bytes with a readable unit."""
    return decimal(size)


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
    from moca.report.notes import notes

    if isinstance(comparison, Chosen):
        console.print("Held-out training images:", comparison.choosing)
        console.print(Text(f"{comparison.told}\n"))
        console.print("Test images:")
    console.print(comparison)
    if len(comparison.rows) == 1 and not isinstance(comparison, Chosen):
        say(f"One method, so nothing is compared; give an option several values, for example: {_SHORTEST}")
    costs = {"": comparison.cost}
    if isinstance(comparison, Chosen):
        costs = {"Choosing: ": comparison.choosing.cost, "Testing: ": comparison.cost}
    for stage, cost in costs.items():
        if cost:
            say(f"{stage}{cost}.")
            if cost.advice:
                say(as_options(f"{cost.advice}."))
    show_notes(comparison, notes(comparison.rows))
    say(f"Folder: {from_here(comparison.folder)}")


def show_notes(comparison: Comparison, found: Mapping[str, Sequence[str]]) -> None:
    """Print notes, each with the methods concerned unless these are all."""
    from moca.report.labels import some

    for note, labels in found.items():
        methods = "" if labels == [row.label for row in comparison.rows] else f"{some(labels)}: "
        say(f"Note: {methods}{note}.")


def show_intent(intent: Intent) -> None:
    """Print what a comparison would do: its runs that are not done yet, and their number of steps."""
    for line in intent.lines:
        say(line, "dim")
    if intent.how:
        say("Held-out training images, to choose by:")
    _show_plans(intent.first)
    if intent.how:
        say(f"Test images: the best combination of each method, {counted(intent.after_choice, 'run')}.")


def _show_plans(plans: Sequence[Plan]) -> None:
    left = [p for p in plans if not p.done]
    table = Table("to be run", "seeds", Column("steps", justify="right"), box=SIMPLE, padding=(0, 1, 0, 0))
    for label in dict.fromkeys(p.label for p in left):
        runs = [p for p in left if p.label == label]
        seeds = ", ".join(str(p.settings.seed) for p in runs)
        table.add_row(Text(label), seeds, f"{sum(p.steps for p in runs):,}")
    if left:
        console.print(table)
    begun, done = sum(p.begun for p in left), len(plans) - len(left)
    told = f"{counted(len(left), 'run')}, {sum(p.steps for p in left):,} steps in all" if left else "Nothing is missing"
    say(f"{told}{f', {begun} of them begun before' * (begun > 0)}{f'; {done} done before' * (done > 0)}.")


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
