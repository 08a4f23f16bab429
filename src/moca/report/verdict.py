"""What the differences say, in plain words."""

from __future__ import annotations

import math

from moca.report.comparison import Row, Setting, Spread
from moca.report.significance import FEW, LEVEL, Difference, difference, holm
from moca.report.tables import against_own_learner, chance, signed

_MOST_NAMED = 6


def verdict(setting: Setting) -> str:
    """Whether any perturbation did better than its learner, which learner did best, and how sure one can be."""
    gains = [(row, own, gain) for row, (own, gain) in zip(setting.rows, against_own_learner(setting), strict=True)
             if own and gain]  # fmt: skip
    return " ".join(filter(None, [_perturbations(gains), _learners(setting)]))


def _perturbations(gains: list[tuple[Row, Row, Difference]]) -> str:
    if not gains:
        return ""
    known = [entry for entry in gains if not math.isnan(entry[2].spread.mean)]
    if not known:
        return "No perturbation finished with its learner, so nothing can be compared."
    row, own, gain = max(known, key=lambda entry: entry[2].spread.mean)
    adjusted = dict(zip((id(g) for _, _, g in known), holm([g.p for _, _, g in known]), strict=True))[id(gain)]
    several = f" (put right for {len(known)} such differences)" if len(known) > 1 else ""
    if gain.spread.mean <= 0:
        return f"No perturbation has a higher mean final accuracy than its learner. {_caution(gain, adjusted, several)}"
    worse = [entry[0].label for entry in known if entry[2].spread.mean <= 0]
    return f"{row.label} gains most on {own.label}: {_size(gain)}. {_caution(gain, adjusted, several)}" + (
        f" No gain: {_named(worse)}." if worse else ""
    )


def _learners(setting: Setting) -> str:
    plain = [row for row in setting.finished if not row.perturbed]
    known = [row for row in plain if not math.isnan(Spread.of(row.values("final_accuracy")).mean)]
    if len(known) < 2:
        return ""
    best, second, *others = sorted(known, key=lambda row: -Spread.of(row.values("final_accuracy")).mean)
    ahead = difference(best, second)
    of = f"Of the {len(known)} methods without perturbation" if others else "Without perturbation"
    shared = "" if ahead.spread.mean > 0 else "; with the seeds that both have it is not higher"  # others made the mean
    led = f"{of} {best.label} has the highest mean, before {second.label}{shared}"
    return f"{led}: {_size(ahead)}. {_caution(ahead, ahead.p)}"


def _size(gain: Difference) -> str:
    shown, seeds = signed(gain.spread), gain.seeds[0]
    won = f", higher with {gain.wins} of {seeds} seed{'s' * (seeds != 1)}" if gain.paired else ""
    return f"{shown.text} {shown.aside}".strip() + " points" + won


def _caution(gain: Difference, adjusted: float, several: str = "") -> str:
    """How sure one can be, with the test and its n."""
    if not gain.test:
        if min(gain.seeds) < 2:
            return "One seed cannot tell a difference from chance."
        return "All seeds agree to the last digit, so there is nothing to test."
    name = "Paired t-test" if gain.test == "paired t" else "Welch's t-test"
    sure = "more than chance" if adjusted < LEVEL else "it may well be chance"
    few = f"; {max(gain.seeds)} seeds are few, and only large differences can be told" if min(gain.seeds) <= FEW else ""
    return f"{name}, n = {gain.n}, p = {chance(adjusted).removeprefix('= ')}{several}: {sure}{few}.".replace("= <", "<")


def _named(labels: list[str]) -> str:
    more = len(labels) - _MOST_NAMED
    return ", ".join(labels[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
