"""The page that holds the paper's numbers against ours, in Markdown. Every number on it is read from files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from moca.recipes.cells import exhibits
from moca.recipes.claims import Claim, claims
from moca.recipes.claims import rows as claim_rows
from moca.recipes.equal_footing import rows as footing_rows
from moca.recipes.experiment import rules
from moca.recipes.leads import rows as lead_rows
from moca.recipes.matching import NEAR, SEEDS, TENTH, Entry, experiments
from moca.recipes.status import Standing, Sums
from moca.report.significance import LEVEL

COUNTS = (
    f"A cell that the paper claims counts as reproduced when the mean of our seeds is at most {NEAR} points below it, "
    "or above it, or within two pooled standard deviations of it (of the paper's and ours, as far as both are known); "
    f"otherwise it is below. A number that is no accuracy counts where it is at most {TENTH:.0%} of the paper's away "
    f"from it, or within the two deviations; otherwise it differs. With fewer than {SEEDS} seeds n is said. Cells that "
    "the paper quotes from elsewhere, that contradict the rest of it, or that are known from its plotting scripts or "
    "figures alone are reported, not counted."
)
_FOOTING = (
    "The paper's methods are tested with BatchNorm statistics of different batches, which decides part of their order. "
    "These runs were recorded with `--record rules`: the same weights, tested with the statistics of replayed batches "
    "alone, for all methods alike, which is moca's default otherwise. Gains are over the method's own learner, paired "
    "by seed, with the p of a two-sided paired t-test. Past the best: how far the mean lies above the best that the "
    "paper has of the learner, with any perturbation."
)
_LEADS = (
    "Classes of the last task lead, as they are trained on more often ([docs/logit-adjustment.md]"
    "(docs/logit-adjustment.md)). These runs were recorded with `--record lead`: the same weights, tested with the "
    "statistics of replayed batches alone, while more and more of that lead is taken. The best value is known "
    "afterwards only; earlier runs looked from -1 to 3 or 6 alone, and where they end there it may lie beyond."
)


_PLAIN = str.maketrans({"[": "", "]": "", "'": "", "*": "…"})
"""Without what Markdown and Python have a use for."""


def render(standing: Standing, place: str) -> str:
    """The whole page."""
    every = standing.sums(standing.entries)
    claimed = [entry for entry in standing.entries if entry.cell.counts]
    behind = len(experiments([entry for entry in claimed if entry.values]))
    titles = exhibits()
    shown = {name: standing.of(name) for name in titles}
    parts = [
        "# The paper's numbers and ours",
        f"Written by `moca paper report` from the result files under `{place}`. Do not edit: run it again instead. "
        "How to fill it: [docs/reproduction.md](docs/reproduction.md).",
        f"**{every.counted} of {len(claimed)} claimed cells are measured; {every.reproduced} of these are reproduced.**"
        f" They are numbers of {behind} experiments, since the paper prints some more than once. {every.missing} runs "
        f"are missing, about {every.minutes / 60:,.0f} GPU hours. {_where(standing)}",
        COUNTS,
        standing.pace.how,
        _table(
            ["", "what", *Sums.HEAD],
            [[name, title, *standing.sums(shown[name]).texts] for name, title in titles.items()],
        ),
        "## The order of methods",
        *_order(claims(standing.entries)),
        *_recorded("On equal footing", _FOOTING, footing_rows(standing.entries)),
        *_recorded("The lead of new classes", _LEADS, lead_rows(standing.entries)),
        *(_exhibit(standing, name, shown[name]) for name in titles if shown[name]),
        "## Why they are run so",
        "All that fit a cell apply, a later one wins; what none sets is left to the recipes of protocol, data set and "
        "method.",
        _table(["cells", "what is set", "why"], map(_rule, rules())),
        "## Runs",
        f"Each with {standing.seeds} seeds; several of them, packed: `moca paper run`. Where a table or figure is of "
        "what has to be recorded (`--record`), runs that were done without it are missing again.",
        _table(["run", "command", "done", "missing", "GPU minutes"], _runs(standing)),
    ]
    return "\n\n".join(parts) + "\n"


def _order(said: Sequence[Claim]) -> list[str]:
    """What the paper has above what, and what our seeds say of it."""
    head, rows = claim_rows(said)
    verdicts = Counter(row[-1] for row in rows)
    counted = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common())
    told = (
        f"The main tables put a perturbation above its own learner, or WAP above Gaussian noise, {len(said)} times. "
        f"{len(rows)} of these claims are measured{': ' + counted if rows else ''}. Seeds are paired; p is of a "
        f"one-sided paired t-test, and a claim holds where it is below {LEVEL}. With few seeds that asks for a gain "
        "well above its spread; the level is of each claim by itself, so that one in twenty that is not true holds by "
        "chance."
    )
    return [told, _table(head, rows)] if rows else [told]


def _recorded(title: str, told: str, table: tuple[list[str], list[list[str]]]) -> list[str]:
    """What runs say that recorded more than the paper asks for; nothing where none did."""
    head, rows = table
    return [f"## {title}", told, _table(head, rows)] if rows else []


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
        done = str(standing.done(one) or "")
        yield [str(number), f"`{one.command(standing.seeds)}`", done, str(len(missing) or ""), minutes]


def _rule(rule: Mapping[str, Any]) -> list[str]:
    where = ", ".join(f"{name} {value}" for name, value in rule.get("where", {}).items())
    told = [f"{name}={value}" for name, value in rule.get("run", {}).items()]
    for kind in ("learner", "perturb"):
        told += [f"{kind}:{name}={value}" for name, value in rule.get(kind, {}).items()]
    told += [f"not yet runnable: {rule['waits']}"] if "waits" in rule else []
    return [where.translate(_PLAIN) or "all", ", ".join(told), rule["why"]]


def _where(standing: Standing) -> str:
    """What the runs behind the page were done on."""
    ran = {result.folder: result for entry in standing.entries for result in entry.results}
    places = Counter(result.environment.get("device", "unknown hardware") for result in ran.values())
    return f"Runs behind it: {', '.join(f'{count} on {place}' for place, count in places.items())}." if places else ""


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


def _list(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)
