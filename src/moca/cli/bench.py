"""`moca bench`: time training steps, print the timings and write them to a file."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from moca.cli.options import given, with_options
from moca.cli.show import console, say
from moca.errors import Interrupted
from moca.importing import loading
from moca.settings import Bench, validate

if TYPE_CHECKING:
    from moca.bench import Cell, Configuration, Record


def bench(
    *,
    twin: Annotated[bool, Parameter(help=Bench.model_fields["twin"].description)] = True,
    out: Annotated[Path | None, Parameter(help="JSON file to write, after every cell", show_default=False)] = None,
    **options: Any,
) -> int:
    """Time a training step of each method in every execution mode, and a re-implementation of the official code.

    The data is noise of CIFAR's shape, so no data set is needed. Ctrl-C keeps what was measured so far.
    """
    options = given(options) | ({} if twin else {"twin": False})
    settings = validate(Bench, options)
    with loading():
        from moca.bench import Record

    record, progress = Record(settings, out, _command(options, out)), Console(stderr=True)
    begun = time.perf_counter()

    def announce(number: int, of: int, which: Configuration) -> None:
        left = (time.perf_counter() - begun) / max(number - 1, 1) * (of - number + 1)
        status.update(f"{number}/{of} {which}" + (f", about {left:.0f} s left" if number > 1 else ""))

    try:
        with progress.status("counting the work in a step") as status:
            for cell in record.measure(announce):
                progress.print(Text(f"{cell.configuration}: {_timing(cell)}"), soft_wrap=True)
    except KeyboardInterrupt:
        saved = f"; what was measured ({len(record.cells)}) is in {out}" if out and record.cells else ""
        raise Interrupted(f"stopped{saved}") from None
    finally:
        if record.cells:
            show(record)
    if out:
        say(f"File: {out}")
    return 0 if all(cell.timing for cell in record.cells) else 1


command = with_options(bench, Bench, several=("methods", "ways", "packed"), without=("twin",))


def _command(options: dict[str, Any], out: Path | None) -> str:
    """The command line that repeats this benchmark."""
    words = ["moca", "bench"]
    for name, value in (options | ({"out": out} if out else {})).items():
        if name == "twin":
            words.append("--no-twin")
        else:
            words += [f"--{name}", *(map(str, value) if isinstance(value, list) else [str(value)])]
    return shlex.join(words)


def _timing(cell: Cell) -> str:
    if cell.timing is None:
        return f"not available: {cell.reason}"
    return f"{cell.timing.median:.2f} ms a step ({min(cell.timing.blocks):.2f} to {max(cell.timing.blocks):.2f})"


def show(record: Record) -> None:
    """Print one row per cell, and below it the work in a step of each method and why some cells are empty."""
    cells = record.cells
    console.print(_table(record))
    work = {cell.configuration.method: cell.work for cell in cells if cell.work}
    notes = [
        f"{method}: " + (f"{1e-9 * work.flops:.4g} GFLOP, " if work.flops else "") + f"{work.images} images a step"
        for method, work in work.items()
    ]
    if record.without_twin:
        notes.append(f"no twin of the official code for {', '.join(record.without_twin)}")
    empty: dict[str, list[str]] = {}
    for cell in cells:
        if cell.reason:
            empty.setdefault(cell.reason, []).append(str(cell.configuration))
    for line in (*notes, *(f"{reason}: {', '.join(which)}" for reason, which in empty.items())):
        say(line)


def _table(record: Record) -> Table:
    table = Table(
        box=SIMPLE, padding=(0, 1, 0, 0), title="A step of one run in ms: median, least and most of the blocks"
    )
    table.add_column("method", overflow="fold", max_width=16)
    for title in ("ms", "least", "most", "images/s", "TFLOP/s", "over er", "x twin", "GiB"):
        table.add_column(title, justify="right", no_wrap=True)
    method = ""
    for cell in record.cells:
        if cell.configuration.method != method:
            method = cell.configuration.method
            table.add_row(f"[bold]{method}[/bold]")
        table.add_row(*_row(record, cell))
    return table


def _row(record: Record, cell: Cell) -> list[str]:
    entry, chosen = record.entry(cell), cell.configuration
    ms, memory = entry["ms"] or {}, entry["memory"] or {}
    peak = memory.get("reserved", memory.get("process"))
    return [
        f" {chosen.way}" + (f" x{chosen.runs}" if chosen.runs > 1 else ""),
        *(_number(ms.get(key), ".2f" if ms.get(key, 0) < 1000 else ".0f") for key in ("median", "min", "max")),
        _number(entry["images_per_second"], ",.0f"),
        _number(entry["tflops_per_second"], ".3g"),
        _number(entry["over_er"], "+.1%"),
        _number(entry["times_twin"], ".1f"),
        _number(peak and peak / 2**30, ".1f"),
    ]


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
