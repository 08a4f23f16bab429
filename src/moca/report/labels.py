"""Method labels, shortened and wrapped to fit figures and sentences."""

import itertools
import re
from collections.abc import Sequence

from moca import wording

_MOST_NAMED, _MOST_LETTERS = 6, 160
"""Most labels in a sentence, and most letters that they may have together if there are several."""
_LONGEST = 240
"""Most characters of a label that is wrapped: methods often differ only at the end of their names."""


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


def wrapped(label: str, width: int) -> list[str]:
    """A label for a figure on as many lines as it needs."""
    return folded(plain(label, _LONGEST), width)


def rows_of(labels: Sequence[Sequence[str]], line: float) -> list[float]:
    """Where the rows of a figure are whose labels, wrapped to lines, stand above them: 1 apart, and `line` more for
    each line of a label beyond the first."""
    return [place + line * sum(len(lines) - 1 for lines in labels[: place + 1]) for place in range(len(labels))]


def named_places(count: int, most: int) -> range:
    """Which of `count` ticks to label if there is room for `most`: all, or evenly spaced ones."""
    return range(0, count, -(-count // most) or 1)


def some(labels: Sequence[str]) -> str:
    """The first labels as part of a sentence, and how many more there are."""
    lengths = itertools.accumulate(len(label) for label in labels[:_MOST_NAMED])
    return wording.some(labels, max(1, sum(length <= _MOST_LETTERS for length in lengths)))
