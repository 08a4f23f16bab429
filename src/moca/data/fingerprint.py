"""Fingerprints of data sets, which depend neither on the container nor on the order of the images.

Every image has a digest of its pixels. The fingerprint of a set is a digest of the sorted list of (split, class, image
digest), so a copy from anywhere either has it or is not the same data.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

DIGEST = 16
Digests = NDArray[np.uint8]
Labels = NDArray[np.int64]


def image_digests(images: NDArray[np.uint8]) -> Digests:
    """One digest per image of (n, height, width, channels) bytes; the shape is part of the digest."""
    key = np.array(images.shape[1:], "<u4").tobytes()
    rows = np.ascontiguousarray(images)
    found = [hashlib.blake2b(row, digest_size=DIGEST, key=key).digest() for row in rows]
    return np.frombuffer(b"".join(found), np.uint8).reshape(len(images), DIGEST)


def keys(digests: Digests) -> list[bytes]:
    """Digests as keys of sets and dictionaries."""
    return [row.tobytes() for row in digests]


def canonical_order(labels: Labels, digests: Digests) -> NDArray[np.int64]:
    """Indices that sort by class, then by digest: the order in which images are stored, whatever the container."""
    words = np.ascontiguousarray(digests).view(">u8")
    return np.lexsort((words[:, 1], words[:, 0], labels))


@dataclass(frozen=True)
class Contents:
    """Classes and image digests of both splits, each in any order."""

    train_labels: Labels
    train_digests: Digests
    test_labels: Labels
    test_digests: Digests

    def splits(self) -> Iterable[tuple[str, Labels, Digests]]:
        """Name, classes and digests of each split."""
        yield "train", self.train_labels, self.train_digests
        yield "test", self.test_labels, self.test_digests

    def fingerprint(self) -> str:
        """The digest that two copies of the same data share."""
        whole = hashlib.sha256()
        for split, labels, digests in self.splits():
            order = canonical_order(labels, digests)
            record = np.empty(len(labels), [("label", "<u4"), ("digest", np.uint8, DIGEST)])
            record["label"], record["digest"] = labels[order], digests[order]
            whole.update(f"{split} {len(labels)}\n".encode() + record.tobytes())
        return whole.hexdigest()


@dataclass(frozen=True)
class Place:
    """One image: its split, its index there, its class and, if it is relabelled, its correct class."""

    split: str
    index: int
    label: int
    right: int | None = None
