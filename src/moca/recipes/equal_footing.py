"""The order of methods if all are tested with the same BatchNorm statistics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from moca.measures.analysis import analyses_of
from moca.measures.record.rules import final_accuracies
from moca.recipes.matching import Entry
from moca.report.significance import paired
from moca.report.spread import Spread

RULE = "b"
"""BatchNorm statistics of replayed batches only."""
_METRIC = "final_accuracy"
_HEAD = ["where", "method", "paper", "n", "as its code tests", "replayed batches alone", "gain", "p", "past the best"]
_Place = tuple[str, ...]
"""The conditions and learner of a cell, without its perturbation."""


@dataclass(frozen=True)
class _Tested:
    """A cell whose runs were tested under every rule: the final accuracies of each seed, in %, by rule."""

    entry: Entry
    by_seed: dict[str, dict[str, float]]

    def under(self, rule: str) -> dict[str, float]:
        return {seed: accuracies[rule] for seed, accuracies in self.by_seed.items()}


def rows(entries: Sequence[Entry]) -> tuple[list[str], list[list[str]]]:
    """A table: where, the method, the paper's number, ours with its own statistics, ours under the rule, the gain over
    the plain learner under the rule, and how far our mean is above the learner's best number in the paper."""
    claimed = [entry for entry in entries if entry.cell.counts and entry.cell.metric == _METRIC]
    best: dict[_Place, float] = {}
    for entry in claimed:
        best[_place(entry)] = max(entry.cell.value, best.get(_place(entry), -math.inf))
    tested = _tested(claimed)
    plain = {place: one for (place, perturb), one in tested.items() if perturb == "none"}
    return _HEAD, [_row(one, plain.get(place), best[place]) for (place, _), one in tested.items()]


def _place(entry: Entry) -> _Place:
    cell = entry.cell
    return cell.setting, cell.data, cell.tasks, cell.memory, cell.learner


def _tested(entries: Sequence[Entry]) -> dict[tuple[_Place, str], _Tested]:
    """Each experiment with recorded rules once, by its place and perturbation."""
    found: dict[tuple[_Place, str], _Tested] = {}
    for entry in entries:
        key = _place(entry), entry.cell.perturb
        if key not in found:
            finished = [result for result in entry.results if result.finished]
            recorded = {str(result.settings.seed): final_accuracies(analyses_of(result)) for result in finished}
            recorded = {seed: accuracies for seed, accuracies in recorded.items() if RULE in accuracies}
            if recorded:
                found[key] = _Tested(entry, recorded)
    return found


def _row(one: _Tested, plain: _Tested | None, best: float) -> list[str]:
    cell = one.entry.cell
    gain = p = ""
    if plain is not None and plain is not one:
        base = plain.under(RULE)
        gains = [value - base[seed] for seed, value in one.under(RULE).items() if seed in base]
        if gains:
            gain = Spread.of(gains).points("+")
            p = "" if math.isnan(chance := paired(gains)) else f"{chance:.3f}"
    own, ruled = (Spread.of(list(one.under(rule).values())) for rule in ("own", RULE))
    past = Spread.of([ruled.mean - best]).points("+")
    return [
        cell.where,
        cell.method,
        f"{cell.value:.2f}",
        str(len(one.by_seed)),
        own.points(),
        ruled.points(),
        gain,
        p,
        past,
    ]
