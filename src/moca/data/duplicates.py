"""Find duplicate images where they matter: under two labels, or in both splits."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from moca.data.fingerprint import Contents, Place


def repeats(contents: Contents, classes: tuple[str, ...], where: Callable[[Place], str]) -> list[str]:
    """A note for each kind of duplicate that occurs: how many images, and an example."""
    labels = np.concatenate([contents.train_labels, contents.test_labels])
    digests = np.concatenate([contents.train_digests, contents.test_digests])
    split = np.arange(len(labels)) >= len(contents.train_labels)
    words = np.ascontiguousarray(digests).view(">u8")
    order = np.lexsort((labels, split, words[:, 1], words[:, 0]))
    same = (words[order[1:]] == words[order[:-1]]).all(1)
    image = np.concatenate([[0], np.cumsum(~same)])
    before, after = order[:-1][same], order[1:][same]

    def shown(row: int) -> str:
        test = bool(split[row])
        place = Place("test" if test else "train", row - test * len(contents.train_labels), int(labels[row]))
        return f"{where(place)} ('{classes[place.label]}')"

    def note(differ: NDArray[np.bool_], kind: str) -> list[str]:
        count = len(np.unique(image[1:][same][differ]))
        if not count:
            return []
        first, second = (shown(int(rows[differ][0])) for rows in (before, after))
        return [f"{count:,} image{'s' * (count > 1)} {kind}, for example {first} and {second}"]

    return [
        *note(labels[before] != labels[after], "under more than one label"),
        *note(split[before] != split[after], "in both the training and the test set"),
    ]
