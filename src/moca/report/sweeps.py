"""Sweeps: methods that differ in one numeric setting, such as lambda or the memory size, drawn as curves over it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from moca.report import grouping
from moca.report.facets import MOST, evenly
from moca.report.methods import Row, Setting
from moca.settings import ELSEWHERE, Label, Run

_LEAST = 3
"""Fewest values that make a curve; for two, the summary is enough."""
_WIDE = 20
"""Ratio of the largest to the smallest value from which the axis is logarithmic."""
_APART = 0.12
"""Least distance of two labels on a logarithmic axis, as a share of its length."""

_ANGLES = ("fixed_angle", "angle_cap")
"""Settings in degrees; the others that are varied are plain numbers."""
Place = tuple[str, ...]
"""Path of a setting: ("lr",) or ("perturb", "lambda")."""


@dataclass(frozen=True)
class Line:
    """A method, with its results at each value of the setting."""

    name: Label
    points: list[tuple[float, Row]]
    own: str = ""
    """Label of its learner, if that is in the figure."""


@dataclass(frozen=True)
class Sweep:
    """One figure: methods with several values of one setting, and their learners that do not have it (`levels`)."""

    name: str
    lines: Sequence[Line]
    levels: list[Row]

    @property
    def logarithmic(self) -> bool:
        """Whether the values span so wide a range that the axis should be logarithmic."""
        values = [value for line in self.lines for value, _ in line.points]
        return min(values) > 0 and max(values) >= _WIDE * min(values)

    @property
    def ticks(self) -> dict[float, str]:
        """The values to label on a logarithmic axis, and their labels: all but those whose labels would touch."""
        values = sorted({value for line in self.lines for value, _ in line.points})
        apart = (values[-1] / values[0]) ** _APART
        shown = values[:1]
        for value in values[1:]:
            if value >= apart * shown[-1]:
                shown.append(value)
        return {value: f"{value:g}" for value in shown}

    @property
    def axis(self) -> str:
        """The name of its axis, with the unit if there is one."""
        return self.name + " (degrees)" * (self.name in _ANGLES)

    @property
    def colours(self) -> tuple[list[int], list[int]]:
        """The indices of the colours of levels and of lines; of several learners, one with a single line has its."""
        lines = Counter(line.own for line in self.lines)
        apart = [row.label for row in self.levels if len(self.levels) == 1 or lines[row.label] != 1]
        first = len(apart) or min(1, len(self.levels))  # grey is for the learners
        places = {line.own: place for place, line in enumerate(self.lines, first)}
        places |= {label: place for place, label in enumerate(apart)}
        return [places[row.label] for row in self.levels], [*range(first, first + len(self.lines))]

    @property
    def rows(self) -> list[Row]:
        """All methods in the figure."""
        return [*self.levels, *(row for line in self.lines for _, row in line.points)]


def sweeps(setting: Setting) -> list[Sweep]:
    """A sweep for every numeric setting that some method was run with several values of, all else being equal."""
    settings = {row.label: dict(_flat(row.run)) for row in setting.finished}
    places = dict.fromkeys(place for of_method in settings.values() for place in of_method)
    varied = [p for p in places if len({str(of_method.get(p)) for of_method in settings.values()}) >= _LEAST]
    return [sweep for place in varied for sweep in _sweeps_over(setting, place, settings)]


def _sweeps_over(setting: Setting, place: Place, settings: dict[str, dict[Place, Any]]) -> list[Sweep]:
    """The sweeps over one setting, in as many figures as needed; none if it is not numeric."""
    families: dict[str, dict[float, Row]] = {}
    for row in setting.finished:
        rest = dict(settings[row.label])
        value = rest.pop(place, None)
        if isinstance(value, int | float) and not isinstance(value, bool):
            families.setdefault(json.dumps(sorted(map(str, rest.items()))), {})[value] = row
    several = [sorted(points.items()) for points in families.values() if len(points) >= _LEAST]
    inside = {row.label for points in several for _, row in points}
    learners = [setting.own_learner(points[0][1]) for points in several]
    owns = [own if own and own.finished and own.label not in inside else None for own in learners]
    levels = list({own.label: own for own in owns if own}.values())
    lines = [Line(label, points, own.label if own else "")
             for label, points, own in zip(_labels(several, place), several, owns, strict=True)]  # fmt: skip
    name = place[0] if place[-1] == "size" else place[-1]  # ("memory", "size") is called memory
    levels = levels[: MOST - 1]
    return [Sweep(name, part, levels) for part in evenly(lines, MOST - len(levels))]


def _labels(several: Sequence[Sequence[tuple[float, Row]]], place: Place) -> list[Label]:
    """Labels of the methods without the setting that is swept: it has its usual value, or the same in all of them."""
    return grouping.labels([_with(points[0][1].run, place, several[0][0][0]) for points in several])


def _with(run: Run, place: Place, same: float) -> Run:
    outer, *inner = place
    if not inner:
        return run.model_copy(update={outer: same})
    part = getattr(run, outer)
    fields = type(part).model_fields
    field = next(name for name, about in fields.items() if inner[0] in (name, about.alias))
    value = getattr(grouping.usual(part, run), field) if outer in ("learner", "perturb") else same
    return run.model_copy(update={outer: part.model_copy(update={field: value})})


def _flat(run: Run) -> Iterator[tuple[Place, Any]]:
    """The settings that define a method, each with its path."""
    settings = run.model_dump(mode="json", by_alias=True, exclude={*ELSEWHERE, *grouping.STREAM})
    for name, value in settings.items():
        if isinstance(value, dict):
            yield from (((name, option), chosen) for option, chosen in value.items())
        else:
            yield (name,), value
