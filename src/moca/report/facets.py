"""Which methods share a figure: no more than a reader can tell apart, and those that belong together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from moca.report.comparison import Row, Setting
from moca.report.palette import LOOKS
from moca.settings import word

T = TypeVar("T")
MOST = len(LOOKS)
"""Lines of a figure."""


@dataclass(frozen=True)
class Facet:
    """A figure's share of the methods; the place of a method is that of its colour."""

    title: str
    rows: list[Row]


def facets(setting: Setting, rows: list[Row] | None = None) -> list[Facet]:
    """All methods, by default those that finished, in one figure if they are few; else the learners by themselves, and
    each learner with its perturbations, in as many figures as it takes."""
    rows = setting.finished if rows is None else rows
    if len(rows) <= MOST:
        return [Facet("", rows)] if rows else []
    plain = [row for row in rows if not row.perturbed]
    families: dict[tuple[str, str], tuple[list[Row], list[Row]]] = {}
    for row in rows:
        if row.perturbed:
            own = setting.own_learner(row)
            known = (row.run.learner.name, own.label if own else "")
            first = [own] if own in plain and own else []
            families.setdefault(known, (first, []))[1].append(row)
    plain.sort(key=lambda row: word(row.run.memory))  # those that compare best side by side
    elsewhere = len(plain) == 1 and any(first for first, _ in families.values())
    made = [] if elsewhere else _shared("Without perturbation", [], plain)
    for (learner, label), (first, others) in families.items():
        made += _shared(f"Perturbations of {label or learner}", first, others)
    return made


def _shared(title: str, first: list[Row], others: list[Row]) -> list[Facet]:
    """The others, evenly, in figures that all begin with the first."""
    parts = evenly(others, MOST - len(first))
    return [
        Facet(title + (f" ({number} of {len(parts)})" if len(parts) > 1 else ""), [*first, *part])
        for number, part in enumerate(parts, 1)
    ]


def evenly(things: Sequence[T], most: int) -> list[Sequence[T]]:
    """In order, in as few parts of at most so many as can be, and these as equal."""
    parts = -(-len(things) // most)
    each = -(-len(things) // max(parts, 1))
    return [things[part * each :][:each] for part in range(parts)]


def colours(setting: Setting) -> list[int | None]:
    """The place of each method's colour, where all of them share one figure; one without a figure has none."""
    drawn = facets(setting)
    places = {row.label: place for place, row in enumerate(drawn[0].rows)} if len(drawn) == 1 else {}
    return [places.get(row.label) for row in setting.rows]
