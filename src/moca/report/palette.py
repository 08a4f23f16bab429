"""Colours that remain distinguishable with any kind of colour vision, on light and dark pages."""

from collections.abc import Mapping
from typing import NamedTuple


class Look(NamedTuple):
    """How a method is drawn: its colour on a light and on a dark page; marker and dash, for print without colour."""

    light: str
    dark: str
    marker: str
    symbol: str
    dash: str


LOOKS = (
    Look("#5f6670", "#aab2bb", "o", "circle", "solid"),
    Look("#0062a0", "#62b7ec", "s", "square", "solid"),
    Look("#d55e00", "#ff8f52", "^", "triangle-up", "solid"),
    Look("#00815f", "#41a38e", "D", "diamond", "solid"),
    Look("#cc518e", "#e876cf", "v", "triangle-down", "dash"),
    Look("#8d5200", "#eabb3e", "P", "cross", "dash"),
    Look("#6f4cc0", "#b38fff", "X", "x", "dash"),
    Look("#2596c4", "#86e2f6", "*", "star", "dash"),
)
"""The first, for the baseline, is grey. A figure has at most this many lines."""

_OLD = ("#332288", "#4477AA", "#2b9bc0", "#44AA99", "#117733")  # cool colours from Paul Tol's schemes
_NEW = ("#b8860b", "#EE7733", "#CC3311", "#AA4499", "#882255")  # warm ones
_OLD_DARK = ("#9a8cf0", "#7fb0e0", "#66CCEE", "#5fd0bc", "#5cbf7a")
_NEW_DARK = ("#DDAA33", "#ff9a5c", "#ff7a66", "#dd88cc", "#e06c9f")


def class_colours(place: int, old: bool) -> tuple[str, str]:
    """The colours of a class on a light and on a dark page: cool for old classes, warm for new ones.

    `place` is the index of the class among the old, or the new, classes.
    """
    light, dark = (_OLD, _OLD_DARK) if old else (_NEW, _NEW_DARK)
    return light[place % len(light)], dark[place % len(dark)]


def colours_of(old: Mapping[int, bool]) -> dict[int, tuple[str, str]]:
    """The colours of all classes, given whether each is old."""
    return {c: class_colours(sum(old[k] == old[c] for k in old if k < c), old[c]) for c in sorted(old)}
