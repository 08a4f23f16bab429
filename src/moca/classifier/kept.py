"""What a model keeps beside what it learns with: images to judge by, and which ones it was taught with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from moca.data.fingerprint import Digests
from moca.data.given import Label

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

    def accuracy(self, classifier: Classifier) -> float | None:
        """The share of the images to judge by that are told right; None where there are none."""
        return classifier.score(self.images, self.labels) if self.images is not None and len(self.labels) else None

    def missed(self, classifier: Classifier) -> list[Label]:
        """The classes of whose images to judge by none is told right."""
        if self.images is None or not self.labels:
            return []
        told = zip(classifier.predict(self.images).tolist(), self.labels, strict=True)
        right = {label for answer, label in told if answer == label}
        return [label for label in dict.fromkeys(self.labels) if label not in right]

    def otherwise(self, digests: Digests, labels: list[Label]) -> dict[int, Label]:
        """The places of those images that were taught as another class, and which. One that comes as both is not among
        them."""
        rows = () if self.seen is None else (row.tobytes() for row in self.seen.numpy())
        taught = {row: name for row, name in zip(rows, self.seen_of, strict=True) if name is not None}
        told = [(row.tobytes(), label) for row, label in zip(digests, labels, strict=True)]
        as_before = {row for row, label in told if taught.get(row, label) == label}
        return {place: taught[row] for place, (row, _) in enumerate(told) if row not in as_before}

    def with_more(self, images: Tensor, labels: list[Label], digests: Digests, taught: list[Label]) -> Kept:
        """So many of each class at the most, the first ones."""
        parts = [some for some in (self.images, images) if some is not None and len(some)]  # none has any shape
        names, count, chosen = self.labels + labels, dict[Label, int](), []
        for place, name in enumerate(names):
            count[name] = count.get(name, 0) + 1
            if count[name] <= _HELD:
                chosen.append(place)
        seen = torch.from_numpy(digests.copy())
        seen = seen if self.seen is None else torch.cat([self.seen, seen])
        held = torch.cat(parts)[chosen] if parts else None
        return Kept(held, [names[i] for i in chosen], seen, [*self.seen_of, *taught])

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
