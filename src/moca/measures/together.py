"""Analyses of several runs side by side: what each is called, and means over seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev
from typing import Any

from moca.engine.result import Result
from moca.measures.analyse import Analysed
from moca.measures.analysis import Plot
from moca.settings import Choice, Run

_ELSEWHERE = {"data", "data_dir", "device", "threads", "record", "seed", "learner", "perturb"}
"""Settings that make no other method of it, or have their place in the name."""


@dataclass(frozen=True)
class Group:
    """Runs that differ in nothing but the seed, and what they are called beside the others."""

    label: str
    runs: list[Analysed]

    def number(self, analysis: str, name: str) -> tuple[float, float]:
        """Mean and standard deviation over the runs that have it; NaN where none, or one alone, has."""
        values = [
            value
            for run in self.runs
            if analysis in run.analyses and (value := run.analyses[analysis].numbers.get(name)) is not None
        ]
        return (fmean(values) if values else math.nan), (stdev(values) if len(values) > 1 else math.nan)

    def plot(self, analysis: str, name: str) -> Drawn | None:
        """A plot with the mean over seeds, where they can be averaged; else that of the first one."""
        plots = [run.analyses[analysis].plots[name] for run in self.runs
                 if analysis in run.analyses and name in run.analyses[analysis].plots]  # fmt: skip
        if not plots:
            return None
        first = plots[0]
        alike = all(p.x == first.x and p.y == first.y and p.series.keys() == first.series.keys() for p in plots)
        if len(plots) == 1 or not alike or first.kind == "points":
            return Drawn(self.label, first, {})
        means, spreads = {}, {}
        for key in first.series:
            means[key], spreads[key] = _over_seeds([p.series[key] for p in plots])
        return Drawn(self.label, replace(first, series=means), spreads)


@dataclass(frozen=True)
class Drawn:
    """A plot of one method, and how far its seeds are apart."""

    label: str
    plot: Plot
    spreads: dict[str, Any]
    place: int = 0
    """Among all methods, for a colour that is the same in every figure."""


def _over_seeds(values: list[Any]) -> tuple[Any, Any]:
    """Mean and standard deviation of nested lists of the same shape; None where one does not know."""
    if isinstance(values[0], list):
        parts = [_over_seeds(list(part)) for part in zip(*values, strict=True)]
        return [mean for mean, _ in parts], [spread for _, spread in parts]
    return (None, None) if None in values else (fmean(values), stdev(values))


def grouped(runs: Sequence[Analysed]) -> dict[str, list[Group]]:
    """By data set, as numbers on different images cannot be compared; each method with all its seeds, in order."""
    by_data: dict[str, list[Analysed]] = {}
    for run in runs:
        by_data.setdefault(_data(run.result), []).append(run)
    return {data: _methods(those) for data, those in by_data.items()}


def _data(result: Result) -> str:
    """The data set, in how many tasks, and what it was judged on where that is not the test set."""
    tasks = len(result.accuracy_matrix[0]) if result.accuracy_matrix else 0
    held = f", {result.settings.validation:g} of the training images held out" if result.settings.validation else ""
    return f"{result.settings.data_name}, {tasks} task{'s' * (tasks != 1)}{held}"


def _methods(runs: Sequence[Analysed]) -> list[Group]:
    settings = [run.result.settings for run in runs]
    varied = {name for name in Run.model_fields if len({_word(s, name) for s in settings}) > 1} - _ELSEWHERE
    groups: dict[str, list[Analysed]] = {}
    for run in runs:
        groups.setdefault(_called(run.result.settings, varied, settings), []).append(run)
    return [Group(name, those) for name, those in groups.items()]


def _called(run: Run, varied: set[str], others: Sequence[Run]) -> str:
    """Learner and perturbation, with those of their options that the others do not all have, and what else varies."""
    parts = [_named(run.learner, [other.learner for other in others])]
    if run.perturb.name != "none":
        parts.append(_named(run.perturb, [other.perturb for other in others]))
    return " ".join(["+".join(parts), *(f"{name}={_word(run, name)}" for name in sorted(varied))])


def _named(choice: Choice, others: Sequence[Choice]) -> str:
    """Its name, and the options in which another one of that name differs."""
    namesakes = [other.options for other in others if other.name == choice.name]
    told = {key: value for key, value in choice.options.items() if any(o.get(key) != value for o in namesakes)}
    fields = type(choice).model_fields
    spelled = ",".join(f"{fields[key].alias or key}={value}" for key, value in told.items())
    return f"{choice.name}:{spelled}" if spelled else choice.name


def _word(run: Run, name: str) -> str:
    value = getattr(run, name)
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
