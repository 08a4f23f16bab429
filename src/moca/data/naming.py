"""Match the class names of a container with those of the known data set that it should be."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from moca.data.catalogue import Known
from moca.data.source import Source
from moca.data.writer import Raw
from moca.errors import MocaError
from moca.wording import some

Classes = tuple[str, ...]
_MOST_NAMES = 6
"""Most classes that are named."""


def named(
    source: Source, train: Raw, test: Raw | None, expected: Known | None, lenient: bool
) -> tuple[Classes, Raw, Raw | None]:
    """The class names, and both splits with labels renumbered in their order."""
    highest = max(int(raw.labels.max(initial=-1)) for raw in (train, test) if raw)
    classes, number = _matched(source.classes, highest, expected, lenient)
    renumbered = replace(train, labels=number[train.labels])
    return classes, renumbered, test and replace(test, labels=number[test.labels])


def _matched(
    given: Classes | None, highest: int, expected: Known | None, lenient: bool
) -> tuple[Classes, NDArray[np.int64]]:
    """The class names, and the new number of each class of the source."""
    count = highest + 1 if given is None else len(given)
    if highest >= count:
        raise MocaError(f"label {highest} has no name among the {count} classes; names and labels must agree")
    if expected is None or (lenient and given is not None and count != len(expected.classes)):
        return given or tuple(map(str, range(count))), np.arange(count)
    if count != len(expected.classes):
        found = f" ({some(given, _MOST_NAMES)})" if given else ""
        raise MocaError(
            f"{count} classes found{found}, '{expected.name}' has {len(expected.classes)}; give its official files or "
            "a folder with a subfolder for each class, or add this one under another name"
        )
    if given is None:
        return expected.classes, np.arange(count)
    position = {_plain(c): i for i, c in enumerate(expected.classes)}
    if {_plain(c) for c in given} == set(position):
        return expected.classes, np.array([position[_plain(c)] for c in given])
    return expected.classes if all(c.isdigit() for c in given) else given, np.arange(count)


def _plain(name: str) -> str:
    """A class name reduced to lower-case letters and digits, because containers spell names differently."""
    return "".join(c for c in name.lower() if c.isalnum())
