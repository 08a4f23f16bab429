"""Colours that people with any kind of colour vision can tell apart."""

BASELINE = "#6b7075"
_METHODS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")  # Okabe and Ito
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_DASHES = ("-", "--", ":", "-.")

_OLD = ("#332288", "#4477AA", "#66CCEE", "#44AA99", "#117733")  # cool ones of Paul Tol's schemes
_NEW = ("#DDAA33", "#EE7733", "#CC3311", "#AA4499", "#882255")  # and warm ones


def method_colour(place: int) -> str:
    """The colour of a method by its place in the comparison; the first one, the baseline, is grey."""
    return _METHODS[(place - 1) % len(_METHODS)] if place else BASELINE


def method_marker(place: int) -> str:
    """A marker that differs from those of the neighbours, for print without colour."""
    return _MARKERS[place % len(_MARKERS)]


def method_dash(place: int) -> str:
    """A line style that changes once the colours are used up."""
    return _DASHES[max(place - 1, 0) // len(_METHODS) % len(_DASHES)]


def class_colour(place: int, old: bool) -> str:
    """Old classes are cool, new ones warm; `place` counts within the group."""
    group = _OLD if old else _NEW
    return group[place % len(group)]
