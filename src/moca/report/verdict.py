"""What the differences say, in plain words."""

from __future__ import annotations

import math
from collections.abc import Sequence

from moca.report.comparison import Row, Setting
from moca.report.labels import some
from moca.report.significance import FEW, Difference, difference, holm_adjusted
from moca.report.tables import against_own_learner, p_value, signed


def verdict(setting: Setting) -> str:
    """Whether any perturbation did better than its learner, which learner did best, how sure one can be, and which
    methods lost seeds on the way."""
    parts = _perturbations(against_own_learner(setting)), _learners(setting), _lost(setting)
    return " ".join(filter(None, parts))


def _perturbations(gains: list[tuple[Row, Row, Difference]]) -> str:
    if not gains:
        return ""
    known = [entry for entry in gains if not math.isnan(entry[2].spread.mean)]
    if not known:
        return "No perturbation finished with its learner, so nothing can be compared."
    row, own, gain = max(known, key=lambda entry: entry[2].spread.mean)
    sure = _caution(gain, [entry[2] for entry in known])
    if gain.spread.mean <= 0:
        least = f"{row.label} loses least on {own.label}" if len(known) > 1 else f"{row.label} over {own.label}"
        none = "No perturbation has a higher mean final accuracy than its learner."
        return f"{none} {least}: {_size(gain)}. {sure}{_clear_others(row, known)}"
    worse = [entry[0].label for entry in known if entry[2].spread.mean <= 0]
    none = f" No gain: {some(worse)}." if worse else ""
    return f"{row.label} gains most on {own.label}: {_size(gain)}. {sure}{none}{_clear_others(row, known)}"


def _clear_others(told: Row, known: Sequence[tuple[Row, Row, Difference]]) -> str:
    """The other differences that are more than chance: the largest need not be the surest."""
    clear = {row.label: gain.spread.mean > 0 for row, _, gain in known if gain.clear}
    above = [label for label, gains in clear.items() if gains and label != told.label]
    below = [label for label, gains in clear.items() if not gains and label != told.label]
    also = "Also more" if told.label in clear else "More"
    said = [(f"{also} than chance", above), ("Worse, by more than chance", below)]
    return "".join(f" {what}: {some(labels)}." for what, labels in said if labels)


def _lost(setting: Setting) -> str:
    """Methods some of whose runs diverged or failed: what is left of them are the seeds that went well."""
    parts = [
        f"{row.label} ({len(row.finished)} of {len(row.results)})"
        for row in setting.finished
        if len(row.finished) < len(row.results)
    ]
    none = [row.label for row in setting.rows if not row.finished]
    said = [("Not all seeds finished, and those that did may flatter", parts), ("No seed finished", none)]
    return " ".join(f"{what}: {some(labels)}." for what, labels in said if labels)


def _learners(setting: Setting) -> str:
    means = {row.label: row.spread("final_accuracy").mean for row in setting.finished}
    known = [row for row in setting.finished if not (row.perturbed or math.isnan(means[row.label]))]
    if len(known) < 2:
        return ""
    best, *others = sorted(known, key=lambda row: -means[row.label])
    leads = holm_adjusted([difference(best, other) for other in others])
    of = f"Of the {len(known)} methods without perturbation" if len(known) > 2 else "Without perturbation"
    shared = "" if leads[0].spread.mean > 0 else "; with the seeds that both have it is not higher"  # others decided
    led = f"{of} {best.label} has the highest mean, before {others[0].label}{shared}"
    return f"{led}: {_size(leads[0])}. {_caution(leads[0], leads)}"


def _size(gain: Difference) -> str:
    seeds = gain.seeds[0]
    won = f", higher with {gain.wins} of {seeds} seed{'s' * (seeds != 1)}" if gain.paired else ""
    return f"{signed(gain.spread).whole} points{won}"


def _caution(gain: Difference, among: Sequence[Difference]) -> str:
    """How sure one can be, with the test, its n, and how many differences it was put right for."""
    if not gain.test:
        if min(gain.seeds) < 2:
            return "One seed cannot tell a difference from chance."
        return "All seeds agree to the last digit, so there is nothing to test."
    name = "Paired t-test" if gain.paired else "Welch's t-test"
    tests = sum(bool(one.test) for one in among)
    several = f" (put right for {tests} such differences)" if tests > 1 else ""
    sure = "more than chance" if gain.clear else "it may well be chance"
    few = f"; {min(gain.seeds)} seeds are few, and only large differences can be told" if min(gain.seeds) <= FEW else ""
    return f"{name}, n = {gain.n}, p = {p_value(gain.adjusted)}{several}: {sure}{few}.".replace("= <", "<")
