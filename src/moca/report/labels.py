"""Method labels, shortened and wrapped to fit figures and sentences."""

import re
from collections.abc import Sequence

_MOST_NAMED = 6


def plain(label: str, length: int = 60) -> str:
    """A label for a figure: printable characters only, and at most `length` of them."""
    shown = "".join(c if c.isprintable() else " " for c in label)
    return shown if len(shown) <= length else shown[: length - 1] + "…"


def folded(label: str, width: int) -> list[str]:
    """A label wrapped to lines of about `width` characters, broken between options."""
    lines = [""]
    for part in re.findall(rf"[^+,: ]{{1,{width - 1}}}[+,: ]?|[+,: ]", label):
        if lines[-1] and len(lines[-1] + part.rstrip()) > width:
            lines.append("")
        lines[-1] += part
    return [line.rstrip() for line in lines]


def named_places(count: int, most: int) -> range:
    """Which of `count` ticks to label if there is room for `most`: all, or evenly spaced ones."""
    return range(0, count, -(-count // most) or 1)


def some(labels: Sequence[str]) -> str:
    """The first labels as part of a sentence, and how many more there are."""
    more = len(labels) - _MOST_NAMED
    return ", ".join(labels[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
