"""The verdict on a comparison, in a few sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence

from moca import wording
from moca.report.differences import Learners, against_own_learner, between_learners
from moca.report.labels import some
from moca.report.methods import Row, Setting
from moca.report.significance import FEW, ROUNDING, Difference
from moca.report.tables import p_value, signed

_MOST_MEMORIES = 2
"""Most memories for each of which the best learner has a sentence of its own."""
_MOST_BEST = 6
"""Most memories that are named if there are more."""


def verdict(setting: Setting) -> str:
    """Whether a perturbation beat its learner, which learner did best, how certain that is, and which runs failed."""
    gains, groups = against_own_learner(setting), between_learners(setting)
    learners = [_for_each_memory(groups)] if len(groups) > _MOST_MEMORIES else map(_learners, groups)
    parts = _perturbations(gains), _without_learner(setting), *learners, _unfinished(setting)
    return " ".join(filter(None, parts))


def _perturbations(gains: list[tuple[Row, Row, Difference]]) -> str:
    if not gains:
        return ""
    known = [entry for entry in gains if not math.isnan(entry[2].spread.mean)]
    if not known:
        return "No perturbation finished with its learner, so nothing can be compared."
    row, own, gain = max(known, key=lambda entry: (bool(entry[2].test), entry[2].spread.mean))
    test = _test(gain, sum(bool(entry[2].test) for entry in known)) + _larger_untested(gain, known)
    least = "is level with" if gain.level else "loses least against" if len(known) > 1 else "over"
    if not any(entry[2].higher for entry in known):
        none = "No perturbation has a higher mean final accuracy than its learner."
        return f"{none} {row.label} {least} {own.label}: {_size(gain)}. {test}{_other_significant(row, known)}"
    no_gain = [r.label for r, _, other in known if not other.higher and r is not row and not other.clear]
    none = f" No gain: {some(no_gain)}." if no_gain else ""
    most = "gains most over" if gain.higher else least
    return f"{row.label} {most} {own.label}: {_size(gain)}. {test}{none}{_other_significant(row, known)}"


def _larger_untested(best: Difference, known: Sequence[tuple[Row, Row, Difference]]) -> str:
    """Gains above the best one that can be tested, which cannot be tested themselves."""
    least = max(0.0, best.spread.mean) + ROUNDING
    larger = [entry for entry in known if not entry[2].test and entry[2].spread.mean > least]
    if not best.test or not larger:
        return ""
    return f" Higher, but cannot be tested: {some([f'{row.label} ({_size(gain)})' for row, _, gain in larger])}."


def _other_significant(best: Row, known: Sequence[tuple[Row, Row, Difference]]) -> str:
    """The other significant differences: the largest difference is not always the most significant one."""
    clear = {row.label: gain.higher for row, _, gain in known if gain.clear}
    above = [label for label, gains in clear.items() if gains and label != best.label]
    below = [label for label, gains in clear.items() if not gains and label != best.label]
    also = "Also more" if best.label in clear else "More"
    lists = [(f"{also} than chance", above), ("Worse, by more than chance", below)]
    return "".join(f" {what}: {some(labels)}." for what, labels in lists if labels)


def _without_learner(setting: Setting) -> str:
    """Methods with a perturbation that have no gain, since their learner was not run."""
    if len(setting.rows) < 2:
        return ""
    alone: dict[str, list[str]] = {}
    for row in setting.rows:
        if row.perturbed and not setting.own_learner(row):
            alone.setdefault(row.run.learner.name, []).append(row.label)
    there = {row.run.learner.name for row in setting.rows if not row.perturbed}
    return " ".join(
        f"{some(labels)} {'are not compared with their' if len(labels) > 1 else 'is not compared with its'} learner: "
        f"{learner}{' with the same settings' * (learner in there)} is not among the methods."
        for learner, labels in alone.items()
    )


def _unfinished(setting: Setting) -> str:
    """Methods some of whose runs diverged or failed, which biases their numbers towards seeds that went well."""
    partly = [
        f"{row.label} ({len(row.finished)} of {len(row.results)})"
        for row in setting.finished
        if len(row.finished) < len(row.results)
    ]
    none = [row.label for row in setting.rows if not row.finished]
    lists = [("Not all seeds finished, and those that did may flatter the method", partly), ("No seed finished", none)]
    return " ".join(f"{what}: {some(labels)}." for what, labels in lists if labels)


def _for_each_memory(groups: Sequence[Learners]) -> str:
    """Which learner did best with each memory, in short."""
    best, clear = [], []
    for group in groups:
        first, second, *_ = group.ranked
        lead = group.difference(first, second)
        p = f", p = {p_value(lead.adjusted)}".replace("= <", "<") if lead.test else ""
        names = [row.name.without(group.memory) for row in (first, second)]
        best.append(f"{names[0]} at {group.memory} ({signed(lead.spread).whole} points over {names[1]}{p})")
        clear += [group.memory] * lead.clear
    chance = f"More than chance at {some(clear)}" if clear else "None of these leads is more than chance"
    return f"Without perturbation, the highest means are those of {wording.some(best, _MOST_BEST)}. {chance}."


def _learners(group: Learners) -> str:
    """Which of these learners did best, and how far ahead it is of the next."""
    best, second, *_ = group.ranked
    lead, tested = group.difference(best, second), len(group.ranked)
    among = f"Of the {tested} methods without perturbation" if tested > 2 else "Without perturbation"
    among += f" at {group.memory}" * bool(group.memory) + " and with several seeds" * (tested < len(group.rows))
    highest = best.spread("final_accuracy").mean
    single = [row.label for row in group.rows
              if row not in group.ranked and row.spread("final_accuracy").mean > highest + ROUNDING]  # fmt: skip
    higher = f" Higher, but with one seed: {some(single)}." if single else ""
    level = highest - second.spread("final_accuracy").mean <= ROUNDING
    # Its mean may be highest only because of seeds that the other does not have.
    shared = "" if lead.higher or (level and lead.level) else "; with the seeds that both have, it is not higher"
    place = "as has" if level else "ahead of"
    ahead = f"{among}, {best.label} has the highest mean, {place} {second.label}{shared}"
    return f"{ahead}: {_size(lead)}. {_test(lead, group.tests)}{higher}"


def _size(gain: Difference) -> str:
    seeds = gain.seeds[0]
    won = f", higher with {gain.wins} of {seeds} seed{'s' * (seeds != 1)}" if gain.paired else ""
    if gain.paired and gain.level and not gain.test:
        won = ", equal with every seed"
    return f"{signed(gain.spread).whole} points{won}"


def _test(gain: Difference, tests: int) -> str:
    """How certain a difference is: the test, its n, its p-value, and for how many tests that was corrected."""
    if not gain.test:
        if min(gain.seeds) < 2:
            return "One seed cannot tell a difference from chance."
        return "All seeds agree to the last digit, so there is nothing to test."
    name = "Paired t-test" if gain.paired else "Welch's t-test"
    several = f" (corrected for {tests} such differences)" if tests > 1 else ""
    seeds = min(gain.seeds)
    if gain.clear:
        result = "more than chance" + f"; {seeds} seeds are few, so run more to be sure" * (seeds <= FEW)
    else:
        result = "it may well be chance" + f"; {seeds} seeds can show only large differences" * (seeds <= FEW)
    return f"{name}, n = {gain.n}, p = {p_value(gain.adjusted)}{several}: {result}.".replace("= <", "<")
