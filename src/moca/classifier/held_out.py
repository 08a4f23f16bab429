"""What a model stores beside its training state: held-out images, and digests of all images it was taught with."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from moca.data.arrays import Label
from moca.data.fingerprint import DIGEST, Digests, keys

if TYPE_CHECKING:
    from moca.classifier.classifier import Classifier

_HELD = 50
"""Maximum number of held-out images per class."""


@dataclass(frozen=True)
class Kept:
    """Held-out images (or their features, if an encoder is frozen), and digests of all images seen so far."""

    images: Tensor | None = None
    labels: list[Label] = field(default_factory=list)
    seen: Tensor | None = None
    """Digests of all images that the model was taught with, in the order of `seen_of`."""
    seen_of: list[Label] = field(default_factory=list)
    """Classes of the images in `seen`."""
    forgotten: Tensor | None = None
    """Digests of images of forgotten classes, each together with its class, which cannot be read from them."""

    def judged(self, classifier: Classifier) -> list[bool]:
        """Which of the held-out images are classified correctly."""
        return self.right(self.scores(classifier), classifier.classes_.tolist()) if self.labels else []

    def scores(self, classifier: Classifier) -> NDArray[np.float32]:
        """The classifier's scores of the held-out images."""
        return np.empty((0, 0), np.float32) if self.images is None else classifier.decision_function(self.images)

    def right(self, scores: NDArray[np.float32], classes: Sequence[Label]) -> list[bool]:
        """Which of the first held-out images have their highest score for their own class, among the first classes.
        There may be more scores: of more images, and of more classes."""
        if not self.labels:
            return []
        highest = scores[: len(self.labels), : len(classes)].argmax(1).tolist()
        return [classes[best] == label for best, label in zip(highest, self.labels, strict=True)]

    def by_class(self, right: Sequence[bool]) -> list[tuple[Label, int, int]]:
        """For each class: the number of its held-out images classified correctly, and of all of them."""
        counts = {label: [0, 0] for label in self.labels}
        for label, correct in zip(self.labels, right, strict=True):
            counts[label][0] += correct
            counts[label][1] += 1
        return [(label, good, held) for label, (good, held) in counts.items()]

    def otherwise(self, digests: Digests, labels: list[Label]) -> dict[int, Label]:
        """Indices of images that were taught before as another class, with that class. An image that is given again
        with its old label, too, is not among them."""
        taught = self._taught()
        given = keys(digests)
        as_before = {key for key, label in zip(given, labels, strict=True) if taught.get(key, label) == label}
        return {index: taught[key] for index, key in enumerate(given) if key not in as_before}

    def otherwise_too(self, digests: Digests, labels: list[Label]) -> list[tuple[int, int]]:
        """Index pairs of images that are given both as the class they were taught as (the first of the pair) and as
        another (the second)."""
        taught, given = self._taught(), keys(digests)
        as_before = dict[bytes, int]()
        for index, (key, label) in enumerate(zip(given, labels, strict=True)):
            if taught.get(key) == label:
                as_before.setdefault(key, index)
        return [(as_before[key], index) for index, key in enumerate(given)
                if key in as_before and labels[index] != taught[key]]  # fmt: skip

    def new_among(self, digests: Digests) -> tuple[list[int], list[tuple[int, int]]]:
        """Indices of the images that were not seen before, of repeated ones the first; and index pairs of a first
        occurrence and its repetition."""
        seen, first, repeated = {*self._seen_keys()}, dict[bytes, int](), []
        for index, key in enumerate(keys(digests)):
            if key not in seen and first.setdefault(key, index) != index:
                repeated.append((first[key], index))
        return list(first.values()), repeated

    def _taught(self) -> dict[bytes, Label]:
        """The class of each image seen so far, by its digest."""
        return dict(zip(self._seen_keys(), self.seen_of, strict=True))

    def _seen_keys(self) -> list[bytes]:
        return [] if self.seen is None else keys(self.seen.numpy())

    def saw_the_same(self, other: Kept) -> bool:
        """Whether both were taught with the same images as the same classes."""
        return self.seen_of == other.seen_of and self._seen_keys() == other._seen_keys()

    def saw_all_of(self, other: Kept) -> bool:
        """Whether it was taught with all the images that `other` was taught with, whatever their classes."""
        return {*other._seen_keys()} <= {*self._seen_keys()}

    def beside(self, images: Tensor, labels: list[Label]) -> Kept:
        """With more held-out images, without a limit."""
        parts = [some for some in (self.images, images) if some is not None and len(some)]  # empty ones lack the shape
        return replace(self, images=torch.cat(parts) if parts else None, labels=self.labels + labels)

    def learnt(self, digests: Digests, taught: list[Label]) -> Kept:
        """After a lesson: with the digests and labels of its images, and at most `_HELD` held-out images per class, the
        first ones."""
        count, chosen = dict[Label, int](), []
        for index, name in enumerate(self.labels):
            count[name] = count.get(name, 0) + 1
            if count[name] <= _HELD:
                chosen.append(index)
        held = self._only(chosen, list(range(len(self.seen_of))))
        seen = _digests([*held._seen_keys(), *keys(digests)])
        return replace(held, seen=seen, seen_of=[*self.seen_of, *taught])._remembering(digests, taught)

    def relearnt(self, digests: Digests, labels: Sequence[Label]) -> Kept:
        """After a lesson in Python, which may also bring images that were seen before: their latest class counts."""
        known = self._taught() | dict(zip(keys(digests), labels, strict=True))
        seen = replace(self, seen=_digests([*known]), seen_of=[*known.values()])
        return seen._remembering(digests, labels)

    def _remembering(self, digests: Digests, labels: Sequence[Label]) -> Kept:
        """With these images no longer among those of forgotten classes."""
        if self.forgotten is None:
            return self
        again = {*map(_mark, keys(digests), labels)}
        return replace(self, forgotten=_digests([mark for mark in keys(self.forgotten.numpy()) if mark not in again]))

    def without(self, label: Label, former: Sequence[Label] = ()) -> Kept:
        """Without a class, whose images are among the forgotten ones, also by the names that it had before."""
        stay = [i for i, name in enumerate(self.labels) if name != label]
        known = [i for i, name in enumerate(self.seen_of) if name != label]
        before = [] if self.forgotten is None else keys(self.forgotten.numpy())
        marks = [_mark(key, one) for key, name in self._taught().items() if name == label for one in (label, *former)]
        return replace(self._only(stay, known), forgotten=_digests([*before, *marks]))

    def renamed(self, label: Label, name: Label) -> Kept:
        """With another name for a class."""
        labels, seen_of = ([name if one == label else one for one in row] for row in (self.labels, self.seen_of))
        return replace(self, labels=labels, seen_of=seen_of)

    def forgotten_among(self, digests: Digests, labels: Sequence[Label]) -> set[int]:
        """Indices of images that were forgotten with their class, and are given as of this class again."""
        marks = set[bytes]() if self.forgotten is None else {*keys(self.forgotten.numpy())}
        given = enumerate(zip(keys(digests), labels, strict=True))
        return {index for index, (key, label) in given if marks and _mark(key, label) in marks}

    def less(self, digests: Digests, gone: Callable[[Tensor], Tensor]) -> Kept:
        """Without the images that have these digests; `gone` gives the mask of held-out images to remove."""
        wrong = {*keys(digests)}
        known = [i for i, key in enumerate(self._seen_keys()) if key not in wrong]
        some = self.images if self.labels else None
        stay = [] if some is None else torch.nonzero(~gone(some)).flatten().tolist()
        return self._only(stay, known)

    def _only(self, held: list[int], seen: list[int]) -> Kept:
        """Only the held-out images and the digests at these indices."""
        return replace(
            self,
            images=None if self.images is None else self.images[held],
            labels=[self.labels[i] for i in held],
            seen=None if self.seen is None else self.seen[seen],
            seen_of=[self.seen_of[i] for i in seen],
        )

    def state(self) -> dict[str, Any]:
        """All fields as a dict, for `torch.save`."""
        return asdict(self)


def _digests(rows: Sequence[bytes]) -> Tensor:
    """The opposite of `keys`, as a tensor."""
    return torch.from_numpy(np.frombuffer(bytearray().join(rows), np.uint8).reshape(-1, DIGEST))


def _mark(key: bytes, label: Label) -> bytes:
    """A digest of an image together with its class."""
    name = str(label).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(key + name, digest_size=DIGEST).digest()
