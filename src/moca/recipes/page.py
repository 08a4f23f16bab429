"""The page that holds the paper's numbers against ours, in Markdown. Every number on it is read from files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from moca.recipes.cells import exhibits
from moca.recipes.cost import HOW
from moca.recipes.experiment import reasons
from moca.recipes.found import NEAR, SEEDS, Entry, experiments
from moca.recipes.standing import Standing, Sums

COUNTS = (
    f"A cell that the paper claims counts as reproduced when the mean of our seeds is at most {NEAR} points below it, "
    "or above it, or within two pooled standard deviations of it (of the paper's and ours, as far as both are known); "
    f"otherwise it is below. With fewer than {SEEDS} seeds n is said. Cells that the paper quotes from elsewhere, that "
    "contradict the rest of it, or that are known from its plotting scripts or figures alone are reported, not counted."
)


def render(standing: Standing, place: str) -> str:
    """The whole page."""
    every = standing.sums(standing.entries)
    claimed = [entry for entry in standing.entries if entry.cell.counts]
    titles = exhibits()
    shown = {name: standing.of(name) for name in titles}
    parts = [
        "# The paper's numbers and ours",
        f"Written by `moca paper report` from the result files under `{place}`. Do not edit: run it again instead. "
        "How to fill it: [docs/reproduction.md](docs/reproduction.md).",
        f"**{every.counted} of {len(claimed)} claimed cells are measured; {every.reproduced} of these are reproduced.**"
        f" {every.missing} runs are missing, about {every.minutes / 60:,.0f} GPU hours. {_where(standing)}",
        COUNTS,
        HOW,
        _table(
            ["", "what", *Sums.HEAD],
            [[name, title, *standing.sums(shown[name]).texts] for name, title in titles.items()],
        ),
        *(_exhibit(standing, name, shown[name]) for name in titles if shown[name]),
        "## Why they are run so",
        _list(dict.fromkeys(why for entry in standing.entries for why in reasons(entry.cell))),
        "## Runs",
        f"Each with {standing.seeds} seeds; several of them, packed: `moca paper run`.",
        _table(["run", "command", "done", "missing", "GPU minutes"], _runs(standing)),
    ]
    return "\n\n".join(parts) + "\n"


def _exhibit(standing: Standing, name: str, shown: Sequence[Entry]) -> str:
    head, rows = standing.rows(shown)
    sums = standing.sums(shown)
    waiting = Counter(entry.waits for entry in shown if entry.waits)
    notes = Counter(entry.cell.note for entry in shown if entry.cell.note)
    said = [f"Not yet runnable, {count} cells: {why}." for why, count in waiting.items()]
    if sums.missing:
        command = f"`moca paper run {name} --seeds {standing.seeds} --device cuda`"
        said.insert(0, f"Missing: {sums.missing} runs, about {sums.minutes:,.0f} GPU minutes: {command}")
    said += [f"{note} ({count} cell{'s' * (count != 1)})" for note, count in notes.items()]
    title = f"## {name}: {exhibits()[name]}"
    return "\n\n".join(filter(None, [title, _table(head, rows), _list(said)]))


def _runs(standing: Standing) -> Iterable[list[str]]:
    for number, one in enumerate(experiments(standing.entries), 1):
        missing = standing.missing(one)
        minutes = f"{standing.minutes([(one, missing)]):,.1f}" if missing else ""
        done = str(len(standing.found.of(one)) or "")
        yield [str(number), f"`{one.command(standing.seeds)}`", done, str(len(missing) or ""), minutes]


def _where(standing: Standing) -> str:
    """What the runs behind the page were done on."""
    ran = {result.folder: result for entry in standing.entries for result in entry.results}
    places = Counter(result.environment.get("device", "unknown hardware") for result in ran.values())
    return f"Runs behind it: {', '.join(f'{count} on {place}' for place, count in places.items())}." if places else ""


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


def _list(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)
