"""Reads the paper's metrics from our runs: from their accuracies, or from what they recorded for analyses."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from moca.measures.analysis import FILE, Analysis, analyses_of
from moca.measures.record.gradients import ALL, OFFICIAL
from moca.measures.record.recorder import KINDS

if TYPE_CHECKING:
    from moca.engine.result import Result

_AFTER, _SV, _LOG_SV = "accuracy_after_task_", "sv_", "log_sv_"
_FISHER = "angular_fisher_score"
ANALYSIS = {name: kind.leads_to for name, kind in KINDS.items()} | {"weights": _FISHER}
"""The analysis that each recording leads to; for saved weights, the one that the paper has a table of."""


@dataclass(frozen=True)
class Recorded:
    """A metric that is read from an analysis."""

    analysis: str
    read: Callable[[Analysis], float | None]


def recorded(metric: str) -> Recorded | None:
    """How to read a metric from an analysis; None for an accuracy, which the result has."""
    if metric in ("angle_old", "angle_new"):
        name = f"{metric.removeprefix('angle_')} classes, training (degrees)"
        return Recorded("angle_deviation", lambda found: found.numbers.get(name))
    if metric == "angular_fisher":
        return Recorded(_FISHER, lambda found: found.numbers.get("test, raw features"))
    for before, as_shown in ((_LOG_SV, math.log), (_SV, float)):
        if metric.startswith(before):
            place = int(metric.removeprefix(before))
            return Recorded("gradient_spectrum", lambda found: as_shown(_share(found, place)))  # noqa: B023
    return None


def _share(found: Analysis, place: int) -> float:
    """The `place`-th singular value (from 1) divided by their sum, for the gradients that the official scripts use."""
    series = found.plots["singular_values"].series
    values = series.get(OFFICIAL, series[ALL])
    return values[place - 1] if place <= len(values) and values[place - 1] > 0 else math.nan


_IN_WORDS = {
    "angle_old": "angle of old classes (degrees)",
    "angle_new": "angle of new classes (degrees)",
    "angle_original": "original angle (degrees)",
    "angle_perturbed": "perturbed angle (degrees)",
    "angular_fisher": "angular Fisher score",
    "train_seconds": "training time (seconds)",
}
_PREFIXES = {_AFTER: "after task ", _LOG_SV: "log of singular value ", _SV: "singular value "}


def in_words(metric: str) -> str:
    """A metric for readers, with its unit unless it is an accuracy."""
    for prefix, words in _PREFIXES.items():
        if metric.startswith(prefix):
            return metric.replace(prefix, words)
    return _IN_WORDS.get(metric, metric.replace("_", " "))


def value(metric: str, result: Result) -> float:
    """A metric of a run, accuracies in %; NaN if the run does not have it."""
    source = recorded(metric)
    if source is not None:
        found = analyses_of(result).get(source.analysis)
        known = source.read(found) if found else None
        return math.nan if known is None else known
    if metric.startswith(_AFTER):
        curve = result.accuracy_over_tasks
        return 100 * curve[int(metric.removeprefix(_AFTER)) - 1] if curve else math.nan
    return 100 * result.numbers()[metric]


def has(result: Result, recordings: Iterable[str]) -> bool:
    """Whether a run has the analyses of all these recordings, or recorded them without finding anything to analyse,
    such as the angle of a perturbation where there is none."""
    needed = set(recordings)
    if needed and (result.folder / FILE).is_file():
        needed -= KINDS.keys() & set(result.settings.record)
    return not needed or analyses_of(result).keys() >= {ANALYSIS[name] for name in needed}
