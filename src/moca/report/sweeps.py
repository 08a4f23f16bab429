"""Methods that differ in one number, such as lambda or the size of the memory: accuracy against it is a curve."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from moca.report import grouping
from moca.report.comparison import Row, Setting
from moca.report.facets import MOST, evenly
from moca.settings import ELSEWHERE, VARIANTS, Run

_LEAST = 3
"""Values that make a curve; two of them are told by the summary."""
_WIDE = 20
"""How many times the least value the greatest one is, where an axis had better be logarithmic."""

Place = tuple[str, ...]
"""Of a number among the settings of a run: ("lr",) or ("perturb", "lambda")."""


@dataclass(frozen=True)
class Line:
    """A method, and what became of it with each value."""

    label: str
    points: list[tuple[float, Row]]


@dataclass(frozen=True)
class Sweep:
    """A figure: methods with several values of one number, and beside them their learners, if they have no such one."""

    name: str
    lines: Sequence[Line]
    levels: list[Row]

    @property
    def logarithmic(self) -> bool:
        """Whether values are of different orders."""
        values = [value for line in self.lines for value, _ in line.points]
        return min(values) > 0 and max(values) >= _WIDE * min(values)


def sweeps(setting: Setting) -> list[Sweep]:
    """A figure for every number of which some method was tried with several values, nothing else being different."""
    told = {row.label: dict(_flat(row.run)) for row in setting.finished}
    places = dict.fromkeys(place for settings in told.values() for place in settings)
    varied = [p for p in places if len({str(settings.get(p)) for settings in told.values()}) >= _LEAST]
    return [sweep for place in varied for sweep in _sweeps_over(setting, place, told)]


def _sweeps_over(setting: Setting, place: Place, told: dict[str, dict[Place, Any]]) -> list[Sweep]:
    families: dict[str, dict[float, Row]] = {}
    for row in setting.finished:
        rest = dict(told[row.label])
        value = rest.pop(place, None)
        if isinstance(value, int | float) and not isinstance(value, bool):
            families.setdefault(json.dumps(sorted(map(str, rest.items()))), {})[value] = row
    several = [sorted(points.items()) for points in families.values() if len(points) >= _LEAST]
    inside = {row.label for points in several for _, row in points}
    learners = [own for points in several for own in (setting.own_learner(points[0][1]),)
                if own and own.finished and own.label not in inside]  # fmt: skip
    levels = list({own.label: own for own in learners}.values())
    lines = [Line(label, points) for label, points in zip(_labels(several, place), several, strict=True)]
    name = place[0] if place[-1] == "size" else place[-1]  # of the memory
    levels = levels[: MOST - 1]
    return [Sweep(name, part, levels) for part in evenly(lines, MOST - len(levels))]


def _labels(several: Sequence[Sequence[tuple[float, Row]]], place: Place) -> list[str]:
    """What the methods are called apart from the number in which each of them differs from itself."""
    same = several[0][0][0] if several and place[-1] not in VARIANTS else 0  # those are in a name unless they are off
    runs = [_with(points[0][1].run, place, same) for points in several]
    return grouping.labels(runs)


def _with(run: Run, place: Place, value: float) -> Run:
    outer, *inner = place
    if not inner:
        return run.model_copy(update={outer: value})
    part = getattr(run, outer)
    fields = type(part).model_fields
    field = next(name for name, about in fields.items() if inner[0] in (name, about.alias))
    return run.model_copy(update={outer: part.model_copy(update={field: value})})


def _flat(run: Run) -> Iterator[tuple[Place, Any]]:
    """What makes a method, number by number and word by word."""
    settings = run.model_dump(mode="json", by_alias=True, exclude={*ELSEWHERE, *grouping.STREAM})
    for name, value in settings.items():
        if isinstance(value, dict):
            yield from (((name, option), chosen) for option, chosen in value.items())
        else:
            yield (name,), value
