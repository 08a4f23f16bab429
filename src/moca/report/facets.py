"""Which methods share a figure: those that belong together, and no more than a reader can distinguish."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from moca.report.methods import Row, Setting
from moca.report.palette import LOOKS
from moca.settings import NONE, Label, Named, word

T = TypeVar("T")
MOST = len(LOOKS)
"""Most lines in a figure."""
_MOST_PANELS = 6


@dataclass(frozen=True)
class Facet:
    """The methods in one figure; a method's index is that of its colour."""

    title: str
    rows: list[Row]


def facets(setting: Setting, rows: list[Row] | None = None) -> list[Facet]:
    """Divide the methods, by default those that finished, among figures.

    If they are few, one figure has them all. Otherwise there are figures for the learners without perturbation, and
    for each learner with its perturbations.
    """
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
    plain.sort(key=lambda row: word(row.run.memory))  # methods with the same memory size side by side
    shown_elsewhere = len(plain) == 1 and any(first for first, _ in families.values())
    figures = [] if shown_elsewhere else _split("Without perturbation", [], plain)
    for (learner, label), (first, others) in families.items():
        figures += _split(f"Perturbations of {label or learner}", first, others)
    return figures


@dataclass(frozen=True)
class Family:
    """A learner with its perturbations, in a panel beside those of others."""

    title: str
    methods: list[tuple[str, int, Row]]
    """Each with its name in print, which lacks the learner's, and the index of its colour: the same in all panels."""


def families(setting: Setting) -> list[Family]:
    """The methods in a panel for each learner, if at least two learners have several; else, or if there are too many to
    tell apart, none. Methods that learn all tasks at once are in every panel, for reference."""
    levels = [(row.name.in_print, row) for row in setting.finished if row.at_once]
    panels: dict[Named, list[tuple[str, Row]]] = {}
    for row in (row for row in setting.finished if not row.at_once):
        name = replace(row.name, learner=NONE).in_print
        panels.setdefault(row.name.learner, []).append((name, row))
    perturbed = {name: row.perturbed for methods in panels.values() for name, row in methods}
    names = [*sorted(perturbed, key=perturbed.__getitem__), *(name for name, _ in levels)]  # the baseline is grey
    several = sum(len(methods) > 1 for methods in panels.values())
    if several < 2 or len(panels) > _MOST_PANELS or len(names) > MOST:
        return []
    return [
        Family(Label(learner).in_print, [(name, names.index(name), row) for name, row in [*methods, *levels]])
        for learner, methods in panels.items()
    ]


def _split(title: str, first: list[Row], others: list[Row]) -> list[Facet]:
    """Divide the others evenly among figures that all begin with `first`."""
    parts = evenly(others, MOST - len(first))
    return [
        Facet(title + (f" ({number} of {len(parts)})" if len(parts) > 1 else ""), [*first, *part])
        for number, part in enumerate(parts, 1)
    ]


def evenly(things: Sequence[T], most: int) -> list[Sequence[T]]:
    """Split a sequence, in order, into as few parts of at most `most` as possible, of nearly equal length."""
    parts = -(-len(things) // most)
    each = -(-len(things) // max(parts, 1))
    return [things[part * each :][:each] for part in range(parts)]


def colours(setting: Setting) -> list[int | None]:
    """The colour index of each method if all share one figure; None for methods that are not drawn."""
    drawn = facets(setting)
    places = {row.label: place for place, row in enumerate(drawn[0].rows)} if len(drawn) == 1 else {}
    return [places.get(row.label) for row in setting.rows]
