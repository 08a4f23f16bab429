"""Method labels, shortened and wrapped to fit figures and sentences."""

import itertools
import re
from collections.abc import Sequence

from moca import wording
from moca.parts import LEARNERS, PERTURBATIONS, Kind

_MOST_NAMED, _MOST_LETTERS = 6, 160
"""Most labels in a sentence, and most letters that they may have together if there are several."""
_LONGEST = 240
"""Most characters of a label that is wrapped: methods often differ only at the end of their names."""


def in_print(label: str) -> str:
    """A method's label as papers write it: `er_ace+gaussian:lambda=0.5 lr=0.1` is ER-ACE + Gaussian (λ=0.5, lr=0.1).

    A label without the learner begins with the plus: `+gaussian` is Gaussian.
    """
    method, *others = label.split(" ")
    parts = [part.partition(":")[::2] for part in method.split("+", 1)]
    titles = [_title(kind, name) for kind, (name, _) in zip((LEARNERS, PERTURBATIONS), parts, strict=False) if name]
    if not all(titles):
        return label
    options = [option for _, given in parts for option in given.split(",") if option] + others
    in_brackets = ", ".join(options).replace("lambda=", "\N{GREEK SMALL LETTER LAMDA}=")
    return " + ".join(titles) + f" ({in_brackets})" * bool(options)


def _title(kind: Kind, name: str) -> str:
    """What a part is called in its paper, as its docstring begins; empty for a name that is no part's."""
    if name in kind.built_in:
        return kind.lines()[name].partition(":")[0]
    return name if kind.knows(name) or "." in name else ""


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
