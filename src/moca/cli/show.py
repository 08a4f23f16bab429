"""What the commands print."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from moca.engine.result import Result
    from moca.report.comparison import Comparison

console = Console()


def show_result(result: Result) -> None:
    """The numbers of one run and where its files are."""
    table = Table(box=None, show_header=False)
    for name, value in result.numbers().items():
        if math.isfinite(value):
            percent = name not in ("seconds", "images_per_second")
            table.add_row(name.replace("_", " "), f"{100 * value:.2f} %" if percent else f"{value:,.1f}")
    console.print(table)
    for note in result.notes:
        console.print(f"Note: {note}.", soft_wrap=True)
    console.print(f"Run folder: {result.folder}", soft_wrap=True, highlight=False)


def show_comparison(comparison: Comparison) -> None:
    """Mean and standard deviation of each method, what they cost, and where the files are."""
    console.print(comparison)
    if comparison.cost:
        console.print(f"{comparison.cost}.", soft_wrap=True, highlight=False)
    for note in dict.fromkeys(n for r in comparison.results for n in r.notes):
        console.print(f"Note: {note}.", soft_wrap=True)
    console.print(f"Folder: {comparison.folder}", soft_wrap=True, highlight=False)
