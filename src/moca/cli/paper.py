"""`moca paper`: the paper's numbers beside ours, and the runs that are missing to reproduce them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter
from rich.box import SIMPLE
from rich.table import Table
from rich.text import Text

from moca.atomic import write
from moca.cli.show import aside, console, say
from moca.errors import Interrupted, MocaError
from moca.importing import loading
from moca.overwriting import PAPER, replaceable
from moca.settings import Run, validate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from moca.recipes.experiment import Experiment
    from moca.recipes.status import Standing

app = App(name="paper", help="The paper's tables and figures: what they say, what we measured, and what is missing.")

_RESULTS = Path("results")
_ELSEWHERE = "say where they are with --results: ours are in the folder 'results' of moca's repository"
Names = Annotated[str, Parameter(help="tables and figures, such as table2 (or 2) or fig10; or all")]
Only = Annotated[str, Parameter(help="only cells that match all of these: cifar100,m500,er,wap", show_default=False)]
Results = Annotated[Path, Parameter(help="folder that is searched for finished runs")]
Seeds = Annotated[int, Parameter(help="number of seeds that each experiment needs")]


@app.command
def ls(*, results: Results = _RESULTS, seeds: Seeds = 3) -> None:
    """List the tables and figures: how many of their cells were measured, and what is missing."""
    with loading():
        from moca.recipes.cells import drawn, exhibits
        from moca.recipes.outcome import NEAR

    standing = _standing(["all"], "", [results], seeds)
    table = _table(["", "measured", "near", "reproduced", "to run", "GPU min", "what"])
    for name, title in exhibits().items():
        if shown := standing.of(name):
            table.add_row(name, *standing.sums(shown).texts, Text(title))
    table.add_row("all", *standing.sums(standing.entries).texts, style="bold")
    console.print(table)
    legend = (
        f"Measured: out of the cells that can be run so far. Near: within {NEAR} points of the paper. Reproduced: also "
        "further above or within noise, out of the measured cells whose numbers the paper claims; the others are "
        "quoted, doubtful, or known only from scripts and images. A number in several tables counts in each. Figures "
        f"without numbers are left out; how {', '.join(drawn())} are drawn: moca paper show."
    )
    console.print(Text(legend, "dim"))
    console.print(Text(standing.pace.how, "dim"))
    _warn_if_empty(standing, results)


@app.command
def show(*names: Names, only: Only = "", results: Results = _RESULTS, seeds: Seeds = 3) -> None:
    """Show cells: the paper's number, ours, a verdict, and the commands that reproduce them."""
    with loading():
        from moca.recipes.cells import drawn, exhibits
        from moca.recipes.selection import named

    chosen = named(names)
    for name in (name for name in chosen if name in drawn()):
        console.print(Text(f"{name}: {exhibits()[name]}", "bold"))
        for command in drawn()[name]:
            say(command)
    if chosen and all(name in drawn() for name in chosen):
        return
    standing = _standing(names, only, [results], seeds)
    runs = _show(standing)
    for number, one in enumerate(runs, 1):
        say(f"{number}: {one.command(seeds)}")
    if runs:
        where = f"runs of the commands above count if --out puts them below {results}"
        say(f"moca paper run in place of moca paper show runs what is missing; {where}.", "dim")
    _warn_if_empty(standing, results)


@app.command
def run(
    *names: Names,
    only: Only = "",
    seeds: Seeds = 3,
    device: Annotated[str, Parameter(help="cpu, cuda, or auto")] = "auto",
    jobs: Annotated[int | None, Parameter(help="runs at a time, as in moca compare", show_default=False)] = None,
    out: Annotated[Path, Parameter(help="folder for the results of runs that ended")] = Path("results/paper"),
    results: Results = _RESULTS,
    work: Annotated[Path, Parameter(help="folder for unfinished runs, which the same command resumes")] = Path(
        "runs/paper"
    ),
    record: Annotated[
        list[str] | None,
        Parameter(help=Run.model_fields["record"].description, consume_multiple=1, negative=(), show_default=False),
    ] = None,
    dry_run: Annotated[bool, Parameter(help="only print what would be run", negative=())] = False,
) -> int:
    """Run what is missing to fill cells, packed on a GPU.

    With --record, runs that lack these recordings are missing too, even if their cells are filled. The same command
    resumes where it stopped. Started several times, it shares the runs, as moca compare does.
    """
    with loading():
        from moca.engine.device import pick_device
        from moca.recipes import missing

    recorded = validate(Run, {"record": tuple(record or ())}).record
    standing = _standing(names, only, [results, out, work], seeds)
    if not any(entry.experiment for entry in standing.entries):
        raise MocaError(f"{', '.join(names)} cannot be run yet; moca paper show says why")
    wanted = standing.wanted(standing.entries, recorded)
    here = device != "cuda" or not dry_run  # a dry run for a GPU needs no GPU
    _show_wanted(standing, wanted, on_cpu=here and pick_device(device).type == "cpu")
    _warn_if_empty(standing, results, "If there are some, ")
    if dry_run:
        return 0
    outcome = missing.carry_out(wanted, out, work, device, jobs)
    _show(_standing(names, only, [results, out], seeds))
    failures = [f"{r.folder.name}: {r.message}" for r in outcome.results if r.status in ("diverged", "failed")]
    if outcome.interrupted:
        raise Interrupted("; ".join(["stopped; the same command resumes it", *failures]))
    for line in failures:
        aside(line, "red")
    return 1 if failures else 0


@app.command
def report(
    *,
    results: Results = _RESULTS,
    out: Annotated[Path, Parameter(help="the page to write, ending in .md")] = Path("RESULTS.md"),
    seeds: Seeds = 3,
) -> None:
    """Write a page: how much of the paper is reproduced, its numbers beside ours, and what is missing."""
    with loading():
        from moca.recipes.page import render

    replaceable(out, PAPER)
    standing = _standing(["all"], "", [results], seeds)
    if not standing.found.results:
        raise MocaError(f"there are no runs in '{results}' to report; {_ELSEWHERE}")
    write(out, render(standing, str(results)), "choose another --out")
    for line in standing.found.unreadable:
        aside(f"left out: {line}")
    say(f"{len(standing.found.results)} runs found; page: {out}")


def _standing(names: Sequence[str], only: str, places: Sequence[Path], seeds: int) -> Standing:
    with loading():
        from moca.recipes.cells import drawn
        from moca.recipes.selection import in_exhibits, named, with_tags
        from moca.recipes.status import Standing

    if not names:
        raise MocaError("say which: table1 to table13, fig1 to fig13, or all; moca paper ls lists them")
    if seeds < 1:
        raise MocaError(f"seeds must be a whole number from 1 on (it is {seeds})")
    if not places[0].is_dir() and places[0] != _RESULTS:
        raise MocaError(f"there is no folder '{places[0]}' with runs that were done; say where it is with --results")
    names = named(names)
    chosen = in_exhibits(names)
    if not chosen:
        how = f"moca paper show {names[0]} says how it is drawn" if names[0] in drawn() else "it is a sketch"
        raise MocaError(f"{', '.join(names)} has no numbers; {how}")
    return Standing(with_tags(chosen, only), places, seeds)


def _warn_if_empty(standing: Standing, results: Path, do: str = "Carry runs out with moca paper run, or ") -> None:
    """If no run was found, say that this is why nothing counts as measured."""
    if not standing.found.results:
        say(f"No run was found below '{results.resolve()}': nothing counts as measured. {do}{_ELSEWHERE}.")


def _show(standing: Standing) -> list[Experiment]:
    """Print the cells; returns their experiments, by whose place the last column refers to them."""
    from moca.recipes.cells import exhibits
    from moca.recipes.matching import experiments
    from moca.recipes.tables import NUMBERS, departed, notes, rows, waiting

    runs = experiments(standing.entries)
    for name, title in exhibits().items():
        if shown := standing.of(name):
            head, lines = rows(shown, runs)
            tags = len(head) - len(NUMBERS)
            console.print(Text(f"{name}: {title}", "bold"))
            table = _table(["", *head[tags:]])
            for line in lines:
                table.add_row(Text(" ".join(filter(None, line[:tags]))), *map(Text, line[tags:]))
            console.print(table)
            for remark in (*waiting(shown), *notes(shown)):
                say(f"- {remark}", "dim")
    for remark in departed(standing.entries):
        say(f"- {remark}", "dim")
    if any(entry.cell.in_percent for entry in standing.entries):
        say("Accuracies are in %, differences between them in points.", "dim")
    return runs


def _show_wanted(standing: Standing, wanted: Sequence[tuple[Experiment, list[int]]], on_cpu: bool) -> None:
    """Print the missing runs and about how many GPU minutes they take; no such estimate exists for a CPU."""
    table = _table(["to be run", "seeds", *([] if on_cpu else ["GPU minutes"])])
    for one, seeds in wanted:
        minutes = [] if on_cpu else [f"{standing.minutes([(one, seeds)]):.1f}"]
        table.add_row(one.label, ", ".join(map(str, seeds)), *minutes)
    if wanted:
        console.print(table)
    runs = sum(len(seeds) for _, seeds in wanted)
    total = f"about {max(1, standing.minutes(wanted)):,.0f} GPU minutes"
    long = f"{total} on an NVIDIA H200, far longer on this CPU" if on_cpu else total
    say(f"{runs} run{'s' * (runs != 1)}, {long}." if runs else "Nothing is missing.")
    if runs and not standing.pace.benchmarked:
        say("Without benchmarks beside the results, every method counts as ER; GEM takes about 50 times as long.")


def _table(head: Sequence[str]) -> Table:
    """A table with text left-aligned and numbers right-aligned; in a narrow terminal only text wraps."""
    table = Table(box=SIMPLE, padding=(0, 1, 0, 0))
    for place, name in enumerate(head):
        words = name in ("what", "verdict") or place == 0
        table.add_column(name, justify="left" if words else "right", no_wrap=not words, min_width=10 * words,
                         overflow="fold" if words else "ellipsis")  # fmt: skip
    return table
