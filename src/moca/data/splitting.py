"""The training and the test set: as given or split off, with all classes in both."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from moca.data.fingerprint import Digests, Labels
from moca.data.writer import Raw, Selection
from moca.errors import MocaError

Chosen = tuple[Selection, Selection]
"""The training and the test images."""


def as_given(train: Raw, test: Raw) -> Chosen:
    """Both splits exactly as in the source."""
    return Selection(train, np.arange(len(train.labels))), Selection(test, np.arange(len(test.labels)))


def split_off(train: Raw, classes: tuple[str, ...], share: float, seed: int) -> Chosen:
    """Split off a share of each class as the test set."""
    held = held_out(train.labels, train.digests, classes, share, seed)
    return Selection(train, np.flatnonzero(~held)), Selection(train, np.flatnonzero(held))


def told(share: float, seed: int) -> str:
    """The note on a test set that was split off."""
    return f"{share:.0%} of each class split off as the test set with seed {seed}"


def salt_of(seed: int) -> bytes:
    """The seed as a salt for the digests that choose images; raises if the seed is too long."""
    salt = b"%d" % seed
    if len(salt) > hashlib.blake2b.SALT_SIZE:
        raise MocaError(f"seed {seed} is out of range; a number of up to {hashlib.blake2b.SALT_SIZE} digits")
    return salt


def held_out(
    labels: Labels, digests: Digests, classes: Sequence[str], share: float, seed: int, least: int = 1
) -> NDArray[np.bool_]:
    """Mask of held-out images: a share of each class, at least `least` and never all. They are chosen by digest, so the
    order of the images does not matter."""
    salt = salt_of(seed)
    draw = np.array(
        [int.from_bytes(hashlib.blake2b(d.tobytes(), digest_size=8, salt=salt).digest(), "big") for d in digests],
        np.uint64,
    )
    held = np.zeros(len(labels), bool)
    for label, name in enumerate(classes):
        members = np.flatnonzero(labels == label)
        if len(members) == 1 and least:
            raise MocaError(
                f"class '{name}' has one image; a test set cannot be split off, add images or give a test set"
            )
        if len(members):
            count = min(max(least, round(share * len(members))), len(members) - 1)
            held[members[np.argsort(draw[members], kind="stable")[:count]]] = True
    return held


def refuse_empty(classes: Sequence[str], train: Labels, test: Labels) -> None:
    """Raise if a class has no training or no test images."""
    for split, labels in (("training", train), ("test", test)):
        for name, count in zip(classes, np.bincount(labels, minlength=len(classes)), strict=True):
            if count == 0:
                raise MocaError(f"class '{name}' has no {split} image; remove the class or add images to it")
