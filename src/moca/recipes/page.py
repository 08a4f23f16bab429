"""The page that compares the paper's numbers with ours, in Markdown. Every number on it is read from files."""

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
    f"A cell that the paper claims counts as reproduced if the mean of our seeds is at most {NEAR} points below it, "
    "or above it, or within two pooled standard deviations of it (of the paper's and ours, as far as both are known); "
    f"otherwise it is below. A number that is not an accuracy counts as reproduced if it is within {TENTH:.0%} of the "
    f"paper's, or within the two deviations; otherwise it differs. With fewer than {SEEDS} seeds, n is given. Cells "
    "that the paper quotes from elsewhere, that contradict the rest of it, or that are known only from its plotting "
    "scripts or figures are reported, not counted."
)
_FOOTING = (
    "The paper's methods are tested with BatchNorm statistics of different batches, which decides part of their order. "
    "These runs were recorded with `--record rules`: the same weights, tested with the statistics of replayed batches "
    "only, for all methods, which is moca's default otherwise. Gains are over the method's own learner, paired by "
    "seed, with the p of a two-sided paired t-test. Past the best: how far the mean is above the paper's best number "
    "for the learner, with any perturbation."
)
_LEADS = (
    "Training favours the classes of the last task, which it sees more often ([docs/logit-adjustment.md]"
    "(docs/logit-adjustment.md)). These runs were recorded with `--record lead`: the same weights, tested with the "
    "statistics of replayed batches only, while the logits of these classes are lowered step by step. The best value "
    "is known only in hindsight; earlier runs tried only -1 to 3 or 6, and if their best is at the end of that range, "
    "it may lie beyond."
)


_PLAIN = str.maketrans({"[": "", "]": "", "'": "", "*": "…"})
"""Removes characters that have a meaning in Markdown and Python."""


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
        "How to add runs: [docs/reproduction.md](docs/reproduction.md).",
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
        *_recorded("Logit adjustment", _LEADS, lead_rows(standing.entries)),
        *(_exhibit(standing, name, shown[name]) for name in titles if shown[name]),
        "## Why they are run this way",
        "All rules that fit a cell apply, and later ones win; settings that none of them sets come from the recipes of "
        "protocol, data set and method.",
        _table(["cells", "what is set", "why"], map(_rule, rules())),
        "## Runs",
        f"Each with {standing.seeds} seeds; several of them, packed: `moca paper run`. If a table or figure needs a "
        "recording (`--record`), runs that were done without it count as missing.",
        _table(["run", "command", "done", "missing", "GPU minutes"], _runs(standing)),
    ]
    return "\n\n".join(parts) + "\n"


def _order(said: Sequence[Claim]) -> list[str]:
    """The section on the order of methods: the paper's claims, and whether our runs support them."""
    head, rows = claim_rows(said)
    verdicts = Counter(row[-1] for row in rows)
    counted = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common())
    text = (
        f"The main tables put a perturbation above its own learner, or WAP above Gaussian noise, {len(said)} times. "
        f"{len(rows)} of these claims are measured{': ' + counted if rows else ''}. Seeds are paired; p is of a "
        f"one-sided paired t-test, and a claim holds if it is below {LEVEL}. With few seeds, that takes a gain well "
        "above its spread. The level applies to each claim on its own, so one in twenty false claims holds by chance."
    )
    return [text, _table(head, rows)] if rows else [text]


def _recorded(title: str, text: str, table: tuple[list[str], list[list[str]]]) -> list[str]:
    """A section on runs that recorded more than the paper requires; empty if there are none."""
    head, rows = table
    return [f"## {title}", text, _table(head, rows)] if rows else []


def _exhibit(standing: Standing, name: str, shown: Sequence[Entry]) -> str:
    head, rows = standing.rows(shown)
    sums = standing.sums(shown)
    waiting = Counter(entry.waits for entry in shown if entry.waits)
    notes = Counter(entry.cell.note for entry in shown if entry.cell.note)
    remarks = [f"Not yet runnable, {count} cells: {why}." for why, count in waiting.items()]
    if sums.missing:
        command = f"`moca paper run {name} --seeds {standing.seeds} --device cuda`"
        remarks.insert(0, f"Missing: {sums.missing} runs, about {sums.minutes:,.0f} GPU minutes: {command}")
    remarks += [f"{note} ({count} cell{'s' * (count != 1)})" for note, count in notes.items()]
    title = f"## {name}: {exhibits()[name]}"
    return "\n\n".join(filter(None, [title, _table(head, rows), "\n".join(f"- {line}" for line in remarks)]))


def _runs(standing: Standing) -> Iterable[list[str]]:
    for number, one in enumerate(experiments(standing.entries), 1):
        missing = standing.missing(one)
        minutes = f"{standing.minutes([(one, missing)]):,.1f}" if missing else ""
        done = str(standing.done(one) or "")
        yield [str(number), f"`{one.command(standing.seeds)}`", done, str(len(missing) or ""), minutes]


def _rule(rule: Mapping[str, Any]) -> list[str]:
    where = ", ".join(f"{name} {value}" for name, value in rule.get("where", {}).items())
    effects = [f"{name}={value}" for name, value in rule.get("run", {}).items()]
    for kind in ("learner", "perturb"):
        effects += [f"{kind}:{name}={value}" for name, value in rule.get(kind, {}).items()]
    effects += [f"not yet runnable: {rule['waits']}"] if "waits" in rule else []
    return [where.translate(_PLAIN) or "all", ", ".join(effects), rule["why"]]


def _where(standing: Standing) -> str:
    """The hardware of the runs behind the page, in words."""
    ran = {result.folder: result for entry in standing.entries for result in entry.results}
    places = Counter(result.environment.get("device", "unknown hardware") for result in ran.values())
    return f"Runs behind it: {', '.join(f'{count} on {place}' for place, count in places.items())}." if places else ""


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))
