"""What methods are called, as a figure has room for it."""

import re
from collections.abc import Sequence

_MOST_NAMED = 6


def plain(label: str, length: int = 60) -> str:
    """A label as a figure can show it: printable and of bearable length."""
    shown = "".join(c if c.isprintable() else " " for c in label)
    return shown if len(shown) <= length else shown[: length - 1] + "…"


def folded(label: str, width: int) -> list[str]:
    """The label in lines of about `width` characters, broken where one option ends and the next begins."""
    lines = [""]
    for part in re.findall(rf"[^+,: ]{{1,{width - 1}}}[+,: ]?|[+,: ]", label):
        if lines[-1] and len(lines[-1] + part.rstrip()) > width:
            lines.append("")
        lines[-1] += part
    return [line.rstrip() for line in lines]


def named_places(count: int, most: int) -> range:
    """Of the places 0, 1, ... those that are named where there is room for `most`: all, or some equally far apart."""
    return range(0, count, -(-count // most) or 1)


def some(labels: Sequence[str]) -> str:
    """The first ones, as a sentence names them, and how many more there are."""
    more = len(labels) - _MOST_NAMED
    return ", ".join(labels[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
