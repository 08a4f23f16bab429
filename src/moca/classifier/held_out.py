"""What a model keeps beside what it learns with: images to judge by, and which ones it was taught with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from moca.data.arrays import Label
from moca.data.fingerprint import Digests

if TYPE_CHECKING:
    from moca.classifier.classifier import Classifier

_HELD = 50
"""Most images of a class that are kept to judge by."""


@dataclass(frozen=True)
class Kept:
    """Images to judge by (or the features that a frozen encoder makes of them), and which ones it has seen."""

    images: Tensor | None = None
    labels: list[Label] = field(default_factory=list)
    seen: Tensor | None = None
    """Digests of all images that it was taught with, each of the class in `seen_of`."""
    seen_of: list[Label | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Early models did not keep of which class the images were that they have seen."""
        unknown = 0 if self.seen is None else len(self.seen) - len(self.seen_of)
        object.__setattr__(self, "seen_of", [None] * unknown + self.seen_of)

    def judged(self, classifier: Classifier) -> list[bool]:
        """Which of the images to judge by are classified correctly."""
        if self.images is None or not self.labels:
            return []
        answers = classifier.predict(self.images).tolist()
        return [answer == label for answer, label in zip(answers, self.labels, strict=True)]

    def by_class(self, right: Sequence[bool]) -> list[tuple[Label, int, int]]:
        """Each class with how many of its images to judge by are classified correctly, and how many there are."""
        counts = {label: [0, 0] for label in self.labels}
        for label, told in zip(self.labels, right, strict=True):
            counts[label][0] += told
            counts[label][1] += 1
        return [(label, good, held) for label, (good, held) in counts.items()]

    def otherwise(self, digests: Digests, labels: list[Label]) -> dict[int, Label]:
        """The places of those images that were taught as another class, and which. One that comes as both is not among
        them."""
        rows = () if self.seen is None else (row.tobytes() for row in self.seen.numpy())
        taught = {row: name for row, name in zip(rows, self.seen_of, strict=True) if name is not None}
        told = [(row.tobytes(), label) for row, label in zip(digests, labels, strict=True)]
        as_before = {row for row, label in told if taught.get(row, label) == label}
        return {place: taught[row] for place, (row, _) in enumerate(told) if row not in as_before}

    def beside(self, images: Tensor, labels: list[Label]) -> Kept:
        """These and more images to judge by, however many."""
        parts = [some for some in (self.images, images) if some is not None and len(some)]  # none has any shape
        return Kept(torch.cat(parts) if parts else None, self.labels + labels, self.seen, self.seen_of)

    def learnt(self, digests: Digests, taught: list[Label]) -> Kept:
        """After a lesson of images with these digests: so many of each class at the most, the first ones."""
        count, chosen = dict[Label, int](), []
        for place, name in enumerate(self.labels):
            count[name] = count.get(name, 0) + 1
            if count[name] <= _HELD:
                chosen.append(place)
        seen = torch.from_numpy(digests.copy())
        seen = seen if self.seen is None else torch.cat([self.seen, seen])
        held = None if self.images is None else self.images[chosen]
        return Kept(held, [self.labels[i] for i in chosen], seen, [*self.seen_of, *taught])

    def without(self, label: Label) -> Kept:
        """Nothing of a class, nor what may be of it."""
        stay = [i for i, name in enumerate(self.labels) if name != label]
        known = [i for i, name in enumerate(self.seen_of) if name not in (label, None)]
        return self._only(stay, known)

    def less(self, digests: Digests, gone: Callable[[Tensor], Tensor]) -> Kept:
        """As if images with these digests had not been taught; `gone` says which of those to judge by they are."""
        seen = [] if self.seen is None else [row.tobytes() for row in self.seen.numpy()]
        wrong = {row.tobytes() for row in digests}
        known = [i for i, row in enumerate(seen) if row not in wrong]
        some = self.images if self.labels else None
        stay = [] if some is None else torch.nonzero(~gone(some)).flatten().tolist()
        return self._only(stay, known)

    def _only(self, held: list[int], seen: list[int]) -> Kept:
        """Of the images to judge by, and of those seen, these."""
        return Kept(
            None if self.images is None else self.images[held],
            [self.labels[i] for i in held],
            None if self.seen is None else self.seen[seen],
            [self.seen_of[i] for i in seen],
        )

    def state(self) -> dict[str, Any]:
        """For a file."""
        return asdict(self)
