"""How a copy of a known data set differs from the published one.

For the known sets, moca ships the first four bytes of each image's digest, its tag: small enough to ship, enough to say
which images of a copy differ.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from moca.data.fingerprint import Contents, Digests, Labels, Place
from moca.wording import counted

Counts = tuple[tuple[int, ...], tuple[int, ...]]
"""Number of images per class, in the training and in the test split."""


def tags(digests: Digests) -> NDArray[np.uint32]:
    """The first four bytes of each digest as a number; in canonical order, tags increase within a class."""
    return np.ascontiguousarray(digests[:, :4]).view(">u4").ravel().astype(np.uint32)


@dataclass(frozen=True)
class Reference:
    """What a complete and correct copy of a known set holds."""

    fingerprint: str
    counts: Counts
    tags: NDArray[np.uint32]
    """Tags of all images: training, then test, each by class."""

    def splits(self) -> Iterable[tuple[str, Labels, NDArray[np.uint32]]]:
        """Name, classes and tags of each split."""
        start = 0
        for split, counts in zip(("train", "test"), self.counts, strict=True):
            stop = start + sum(counts)
            yield split, np.repeat(np.arange(len(counts)), counts), self.tags[start:stop]
            start = stop


@dataclass
class Differences:
    """How a copy differs from the reference."""

    wrong: list[Place] = field(default_factory=list)
    """Images that the reference does not have."""
    duplicated: list[Place] = field(default_factory=list)
    relabelled: list[Place] = field(default_factory=list)
    moved: list[Place] = field(default_factory=list)
    """Images that belong to the other split."""
    missing: Counter[tuple[str, int]] = field(default_factory=Counter)
    """How many images of (split, class) the copy lacks."""
    agreed: int = 0
    same: bool = True
    """Whether the fingerprints agree, so that the copy is complete and correct."""

    def counts(self) -> dict[str, int]:
        """Number of images for each kind of difference that occurs."""
        found = {kind: len(getattr(self, kind)) for kind in ("wrong", "duplicated", "relabelled", "moved")}
        return {kind: n for kind, n in {**found, "missing": self.missing.total()}.items() if n}

    def __str__(self) -> str:
        if self.same:
            return "complete and right"
        if not self.agreed:
            return "no image agrees: another data set, or its images were resized or compressed again"
        listed = ", ".join(f"{n} {kind}" for kind, n in self.counts().items())
        return listed or "the fingerprint differs"


def compare(contents: Contents, reference: Reference) -> Differences:
    """Find the differences of a copy from the reference; cheap if there are none."""
    if contents.fingerprint() == reference.fingerprint:
        return Differences(agreed=sum(map(sum, reference.counts)))
    result = Differences(same=False)
    lacking = {
        split: Counter(zip(labels.tolist(), tag.tolist(), strict=True)) for split, labels, tag in reference.splits()
    }
    known = {split: set(lacking[split]) for split in lacking}
    extra: list[tuple[Place, int]] = []
    for split, labels, digests in contents.splits():
        for index, (label, tag) in enumerate(zip(labels.tolist(), tags(digests).tolist(), strict=True)):
            if lacking[split][label, tag]:
                lacking[split][label, tag] -= 1
                result.agreed += 1
            else:
                extra.append((Place(split, index, label), tag))
    _explain(extra, lacking, known, result)
    for split, left in lacking.items():
        for (label, _), count in left.items():
            if count:
                result.missing[split, label] += count
    return result


def _explain(
    extra: list[tuple[Place, int]],
    lacking: dict[str, Counter[tuple[int, int]]],
    known: dict[str, set[tuple[int, int]]],
    result: Differences,
) -> None:
    """Classify images that do not match the reference as relabelled, moved, duplicated or wrong."""
    elsewhere: dict[str, dict[int, list[int]]] = {split: {} for split in lacking}
    for split, left in lacking.items():
        for (label, tag), count in left.items():
            elsewhere[split].setdefault(tag, []).extend([label] * count)
    for place, tag in extra:
        other = "test" if place.split == "train" else "train"
        if elsewhere[place.split].get(tag):
            right = elsewhere[place.split][tag].pop()
            lacking[place.split][right, tag] -= 1
            result.relabelled.append(replace(place, right=right))
        elif place.label in elsewhere[other].get(tag, ()):
            elsewhere[other][tag].remove(place.label)
            lacking[other][place.label, tag] -= 1
            result.moved.append(place)
        elif (place.label, tag) in known[place.split]:
            result.duplicated.append(place)
        else:
            result.wrong.append(place)


def describe(found: Differences, classes: tuple[str, ...], where: Callable[[Place], str]) -> list[str]:
    """One line for each difference."""
    lines = []
    for kind in ("wrong", "duplicated", "relabelled", "moved"):
        for place in getattr(found, kind):
            change = f"'{classes[place.label]}'" if place.label < len(classes) else f"class {place.label}"
            if place.right is not None:
                change += f", should be '{classes[place.right]}'"
            note = "in the wrong split" if kind == "moved" else kind
            lines.append(f"{note}: {where(place)} ({place.split}, {change})")
    for (split, label), count in sorted(found.missing.items()):
        lines.append(f"missing: {counted(count, f'{split} image')} of '{classes[label]}'")
    return lines
