"""Build a data set from Python objects: arrays, tensors, or a torch data set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from moca.data.arrays import ONE_A_TASK, Given, Label, Shape, images_or_vectors
from moca.data.duplicates import repeats
from moca.data.fingerprint import Contents, Digests, Labels, Place, canonical_order, image_digests
from moca.data.in_memory import Dataset, Split, channel_statistics
from moca.data.protocol import own_protocol, vector_protocol
from moca.data.splitting import held_out, refuse_empty, told
from moca.errors import MocaError, nearest


def dataset(
    train: Any,
    test: Any = None,
    *,
    classes: Sequence[str] | None = None,
    name: str = "own",
    test_share: float = 0.2,
    seed: int = 0,
) -> Dataset:
    """Build a data set from arrays, tensors or a torch `Dataset`.

    The same images give the same data set, whatever their order and form.

    Args:
        train: A pair (images, labels), or a torch `Dataset` of (image, label). Images are bytes, or floats from 0 to 1;
            labels are whole numbers or names. In place of images, vectors: floats (n, d) of any size.
        test: The test images in the same form; without them, `test_share` of each class is held out.
        classes: Names of the classes; labels are positions in it, or names. By default the sorted labels.
        name: Name of the data set.
        test_share: Share of each class that is held out as the test set.
        seed: Seed that, with the images, decides which ones are held out.

    Example:
        >>> images, labels = np.zeros((40, 8, 8, 3), np.uint8), ["cat", "dog"] * 20
        >>> moca.dataset((images, labels), name="pets")
        Dataset 'pets': 32 training and 8 test images of 2 classes, 3x8x8
    """
    if isinstance(train, Dataset):
        if test is not None or classes is not None:
            raise MocaError("train is a moca data set, which has test images and classes of its own; give it alone")
        return train
    if isinstance(train, list | tuple) and any(isinstance(one, Dataset) for one in train):
        raise MocaError(f"these are several data sets; {ONE_A_TASK}")
    if not 0 < test_share < 1:
        raise MocaError(f"test_share={test_share} is out of range; a share between 0 and 1")
    splits_given = {"train": train} if test is None else {"train": train, "test": test}
    sources = [images_or_vectors(data, split) for split, data in splits_given.items()]
    names, number = _numbering([source.labels for source in sources], classes, getattr(train, "classes", None))
    shape = _shape(sources)
    parts = [_part(source, number, shape[2]) for source in sources]
    notes = ["images with transparency were laid on white"] * any(source.alpha for source in sources)
    if test is None:
        held = held_out(parts[0].labels, parts[0].digests, names, test_share, seed)
        parts = [parts[0].some(~held), parts[0].some(held)]
        notes.append(told(test_share, seed))
    train_part, test_part = parts
    refuse_empty(names, train_part.labels, test_part.labels)
    contents = Contents(train_part.labels, train_part.digests, test_part.labels, test_part.digests)

    def where(place: Place) -> str:
        argument = "test" if test is not None and place.split == "test" else "train"
        return f"image {parts[place.split == 'test'].rows[place.index]} of {argument}"

    notes += repeats(contents, names, where)
    splits = train_part.split(shape), test_part.split(shape)
    images, vectors = splits[0].images, sources[0].vectors
    protocol = vector_protocol(images) if vectors else own_protocol(shape, *channel_statistics(images))
    return Dataset(name, *splits, names, protocol, fingerprint=contents.fingerprint(), notes=tuple(notes))


@dataclass(frozen=True)
class _Part:
    """Some of the given images: their indices, classes and digests."""

    source: Given
    rows: NDArray[np.int64]
    labels: Labels
    digests: Digests

    def some(self, chosen: NDArray[np.bool_]) -> _Part:
        return _Part(self.source, self.rows[chosen], self.labels[chosen], self.digests[chosen])

    def split(self, shape: Shape) -> Split:
        """The images in canonical order."""
        order = canonical_order(self.labels, self.digests)
        kind = np.float32 if self.source.vectors else np.uint8
        images: NDArray[Any] = np.empty((len(order), *shape), kind)
        start = 0
        for block in self.source.blocks(self.rows[order]):
            images[start : start + len(block)] = block
            start += len(block)
        return Split(torch.from_numpy(images).permute(0, 3, 1, 2), torch.from_numpy(self.labels[order]))


def _part(source: Given, number: dict[Label, int], channels: int) -> _Part:
    """All images of a source."""
    rows = np.arange(len(source.labels))
    blocks = (np.repeat(block, channels // block.shape[3], axis=3) for block in source.blocks(rows))
    digests = [image_digests(block.view(np.uint8)) for block in blocks]
    return _Part(source, rows, np.array([number[label] for label in source.labels]), np.concatenate(digests))


def _shape(sources: list[Given]) -> Shape:
    """Height, width and channels of all samples; grey images become colour if others are in colour."""
    first, last = sources[0].shape, sources[-1].shape
    if sources[0].vectors != sources[-1].vectors:
        raise MocaError("of train and test one has images and one has vectors; give both alike")
    if sources[0].vectors and first != last:
        raise MocaError(f"vectors of test have {last[2]} numbers, those of train {first[2]}; make both in one way")
    if first[:2] != last[:2]:
        one, other = (f"{shape[0]}x{shape[1]}" for shape in (last, first))
        raise MocaError(f"images of test have {one} pixels, those of train {other}; resize all to one size")
    return max(first, last)


def _numbering(
    given: list[list[Label]], classes: Sequence[str] | None, hint: Any
) -> tuple[tuple[str, ...], dict[Label, int]]:
    """The class names, and the class number of each label; `hint` is the `classes` attribute of a torch data set."""
    kinds = {isinstance(label, str) for labels in given for label in labels}
    if len(kinds) > 1:
        raise MocaError("some labels are whole numbers and some are names; give one kind")
    found, others = sorted(set(given[0])), sorted(set(given[-1]))
    names = tuple(map(str, found))
    number: dict[Label, int] = {label: at for at, label in enumerate(found)}
    if classes is not None:
        names = _distinct(classes)
        number = {label if kinds == {True} else at: at for at, label in enumerate(names)}
        for label in (*found, *others):
            if label not in number:
                advice = nearest(label, names) if isinstance(label, str) else f"they count from 0 to {len(names) - 1}"
                raise MocaError(f"label {label!r} is none of the {len(names)} classes; {advice}")
    elif isinstance(hint, list | tuple) and set(found) <= set(range(len(hint))):
        names = _distinct([hint[at] for at in range(len(hint)) if at in number])
    for label in others:
        if label not in number:
            raise MocaError(f"class '{label}' is in test but not in train; both must hold the same classes")
    if len(names) < 2:
        raise MocaError(f"there is one class ('{names[0]}'); at least two are needed")
    return names, number


def _distinct(classes: Sequence[str]) -> tuple[str, ...]:
    names = tuple(map(str, classes))
    if len(set(names)) < len(names):
        raise MocaError(f"two of the classes have one name ({', '.join(names[:10])}); give each its own")
    return names
