"""The page that compares the paper's numbers with ours, in Markdown. Every number on it is read from files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from moca.recipes.cells import exhibits
from moca.recipes.claims import Claim, claims
from moca.recipes.claims import rows as claim_rows
from moca.recipes.equal_footing import rows as footing_rows
from moca.recipes.experiment import Experiment, rules
from moca.recipes.leads import rows as lead_rows
from moca.recipes.matching import Entry, experiments
from moca.recipes.outcome import NEAR, REPRODUCED, SEEDS, TENTH
from moca.recipes.status import Standing
from moca.recipes.tables import columns, notes, rows, tag, waiting
from moca.report.significance import LEVEL

_READING = (
    "Measured: of the cells that can be run so far; *repeated* are those of experiments that a table or figure "
    "further up has, too. The tables below have the measured cells; `moca paper show` has all. Accuracies are in %, "
    "differences between them in points."
)
_COUNTS = (
    f"**Reproduced** means that the mean of our seeds is at most {NEAR} points from the paper's number. *Above*: it is "
    "further above. *Within noise*: it is further below, but within two pooled standard deviations (the paper's and "
    "ours, as far as known). Otherwise it is *below*. A number that is not an accuracy is reproduced within "
    f"{TENTH:.0%} of the paper's, or within noise; otherwise it *differs*. With fewer than {SEEDS} seeds, n is given. "
    "Not counted are cells that the paper quotes from elsewhere, that contradict the rest of it, or that are known "
    "only from its plotting scripts or figures."
)
_ORDER = (
    "Where the main tables put a perturbation above its own learner, or WAP above Gaussian noise; a claim of two "
    "tables is listed once, as it stands in the first. Seeds are paired; p is of a one-sided paired t-test, and a "
    f"claim holds if it is below {LEVEL}. With few seeds, that takes a gain well above its spread. The corrected p is "
    "by Holm's method, for all claims tested here. `moca report` is stricter (two-sided, always corrected), because "
    "it explores: the paper said beforehand which method is better, and there nobody did."
)
_OTHERWISE = {
    "same direction, may be chance": "have the same direction but may be chance",
    "does not show": "do not show",
    "the other way round": "are the other way round",
}
"""What the claims that do not hold are said to do."""
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
    titles, said, near = exhibits(), claims(standing.entries), f"within {NEAR} points"
    shown = {name: there for name in titles if (there := standing.of(name))}
    runs = experiments([entry for entry in standing.entries if entry.results])
    commands = ([str(n), f"`{one.command(standing.seeds)}`", str(standing.done(one))] for n, one in enumerate(runs, 1))
    parts = [
        "# The paper's numbers and ours",
        f"Written by `moca paper report` from the result files under `{place}`. Do not edit: run it again instead. "
        "How to add runs: [docs/reproduction.md](docs/reproduction.md).",
        "\n".join(f"- {line}" for line in (_experiments(standing), _numbers(standing), _order(said), _left(standing))),
        _table(["", "what", "measured", near, "reproduced", "runs missing", "GPU minutes"], _overview(standing, shown)),
        _READING,
        _COUNTS,
        standing.pace.how,
        *_section("The order of methods", _ORDER, claim_rows(said)),
        *_section("On equal footing", _FOOTING, footing_rows(standing.entries)),
        *_section("Logit adjustment", _LEADS, lead_rows(standing.entries)),
        *(_exhibit(standing, name, there, runs) for name, there in shown.items()),
        "## Why they are run this way",
        "All rules that fit a cell apply, and later ones win; settings that none of them sets come from the recipes of "
        "protocol, data set and method.",
        _table(["cells", "what is set", "why"], map(_rule, rules())),
        "## Runs",
        "The experiments that were run; several of them, packed: `moca paper run`.",
        _table(["run", "command", "runs done"], commands),
    ]
    return "\n\n".join(parts) + "\n"


def _experiments(standing: Standing) -> str:
    """What became of the experiments, each counted once, by its cell that the paper prints first."""
    first: dict[str, Entry] = {}
    for entry in _measured(standing):
        first.setdefault(entry.identity, entry)
    enough = [entry for entry in first.values() if len(entry.values) >= SEEDS]
    near, above, noise, below = _outcomes(first.values())
    others = _outcomes(enough)
    return (
        f"**Of {len(first)} experiments, each counted once, {near} end within {NEAR} points of the paper's number**, "
        f"{above} further above, {noise} further below but within noise, {below} below. Of several numbers of one, "
        f"that which the paper prints first counts. {len(first) - len(enough)} have fewer than {SEEDS} seeds; of the "
        f"other {len(enough)}, {others[0]} end near, {others[1]} above, {others[2]} within noise and {others[3]} below."
    )


def _numbers(standing: Standing) -> str:
    """What became of the paper's numbers, of which several can be of one experiment."""
    measured = _measured(standing)
    near, above, noise, below = _outcomes(measured)
    few = sum(len(entry.values) < SEEDS for entry in measured)
    return (
        f"**Of their {len(measured)} numbers, some in several tables, {near} are within {NEAR} points**, {above} "
        f"further above, {noise} further below but within noise, {below} below. So {near + above + noise} are "
        f"*reproduced*. {few} have fewer than {SEEDS} seeds."
    )


def _measured(standing: Standing) -> list[Entry]:
    """The measured cells that count, in the paper's order."""
    return [entry for entry in standing.entries if entry.cell.counts and entry.values]


def _outcomes(measured: Iterable[Entry]) -> list[int]:
    """How many of these are near the paper's number, further above, within noise of it, and not reproduced."""
    found = Counter(entry.outcome for entry in measured)
    reproduced = [found[one] for one in REPRODUCED]
    return [*reproduced, found.total() - sum(reproduced)]


def _order(said: Sequence[Claim]) -> str:
    """How many of the paper's claims about the order of methods our runs support."""
    tested = [claim for claim in said if claim.tested]
    untested = sum(bool(claim.differences) for claim in said) - len(tested)
    verdicts = Counter(claim.verdict for claim in tested)
    others = ", ".join(f"{verdicts[verdict]} {words}" for verdict, words in _OTHERWISE.items())
    return (
        f"**Of {len(tested)} claims that one method beats another, tested with at least two seeds, {verdicts['holds']} "
        f"hold** (p < {LEVEL}, one-sided, paired), {sum(claim.adjusted < LEVEL for claim in tested)} after Holm's "
        f"correction for all {len(tested)}. Of the others, {others}. {untested} more have one seed and are not tested."
    )


def _left(standing: Standing) -> str:
    """How much was not measured, and what the rest was measured on."""
    claimed = [entry for entry in standing.entries if entry.cell.counts]
    left, sums = sum(not entry.values for entry in claimed), standing.sums(standing.entries)
    return (
        f"**Not measured: {left} of the {len(claimed)} numbers that the paper claims.** {sums.missing} runs are "
        f"missing, about {sums.minutes / 60:,.0f} GPU hours. {_where(standing)}"
    )


def _overview(standing: Standing, shown: Mapping[str, Sequence[Entry]]) -> Iterable[list[str]]:
    """A row for each table and figure with numbers."""
    before: set[str] = set()
    for name, entries in shown.items():
        own = [entry.experiment.identity for entry in entries if entry.values and entry.experiment]
        repeated = sum(identity in before for identity in own)
        before.update(own)
        measured, *others = standing.sums(entries).texts
        link = f"[{name}](#{name})" if own else name
        yield [link, exhibits()[name], measured + f", {repeated} repeated" * (repeated > 0), *others]


def _section(title: str, text: str, table: tuple[list[str], list[list[str]]]) -> list[str]:
    """A section with a table; nothing if that has no rows."""
    head, rows = table
    return [f"## {title}", text, _table(head, rows)] if rows else []


def _exhibit(standing: Standing, name: str, entries: Sequence[Entry], runs: Sequence[Experiment]) -> str:
    """The measured cells of a table or figure, and how to run the others."""
    measured, sums = [entry for entry in entries if entry.results], standing.sums(entries)
    remarks = [*waiting(entries), *notes(measured)]
    if sums.missing:
        command = f"`moca paper run {name} --seeds {standing.seeds} --device cuda`"
        remarks.insert(0, f"Missing: {sums.missing} runs, about {sums.minutes:,.0f} GPU minutes: {command}")
    title, table = f"{exhibits()[name][0].upper()}{exhibits()[name][1:]}.", ""
    if measured:
        head, lines = rows(measured, runs)
        shared = [kind for kind in columns([entry.cell for entry in entries]) if kind not in head]
        if common := ", ".join(filter(None, (tag(measured[0].cell, kind) for kind in shared))):
            title += f" Measured so far: {common}."
        values = ([cell.removeprefix(f"{kind}=") for kind, cell in zip(head, line, strict=True)] for line in lines)
        table = _table(head, values)
    return "\n\n".join(filter(None, [f"## {name}", title, table, "\n".join(f"- {line}" for line in remarks)]))


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
