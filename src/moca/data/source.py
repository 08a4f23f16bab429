"""What a reader returns: the images of a data set as blocks of pixels, never all of them at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moca.errors import MocaError

Pixels = NDArray[np.uint8]
BLOCK_BYTES = 8 << 20
MOST_BYTES = 1 << 28
"""No image or list of labels is larger; a header that claims more is damaged, and nothing is allocated for it."""


@dataclass(frozen=True)
class Options:
    """Options for reading a source."""

    size: int | None = None
    """Resize every image to this many pixels a side: scaled to cover the square, then centre-cropped."""
    workers: int | None = None
    """Decoding threads; by default as many as there are cores, up to four."""
    most: int | None = None
    """Maximum decompressed bytes of arrays that came in an archive."""


@dataclass(frozen=True)
class Block:
    """Some images (n, height, width, channels) of a split, and their rows in it."""

    images: Pixels
    rows: NDArray[np.int64]
    bad: Sequence[tuple[int, str]] = ()
    """Rows of images that could not be read, and why."""


@dataclass(frozen=True)
class Part:
    """One split: the class of every image, and a function that yields the images."""

    labels: NDArray[np.int64]
    blocks: Callable[[bool], Iterator[Block]]
    """Yields the images in blocks; with True, readers that decode files convert all images to colour."""
    name: Callable[[int], str]
    """Where the image of a row came from, for messages."""


@dataclass(frozen=True)
class Source:
    """A data set in a container that a reader recognised."""

    kind: str
    """The kind of container."""
    train: Part
    test: Part | None
    classes: tuple[str, ...] | None = None
    """Class names, if the container has them."""
    notes: tuple[str, ...] = ()
    """What a user should know, such as images that were not used."""


def in_blocks(count: int, each: int) -> Iterator[slice]:
    """Slices that divide `count` items of `each` bytes into blocks of at most BLOCK_BYTES."""
    step = max(1, BLOCK_BYTES // max(1, each))
    return (slice(start, min(start + step, count)) for start in range(0, count, step))


def unused_note(paths: Sequence[Path]) -> tuple[str, ...]:
    """A note if there are several folders or files for one split, of which only the first is used."""
    names = [path.name for path in paths]
    return (f"of {', '.join(names)} only {names[0]} was taken",) if len(names) > 1 else ()


def name_of(files: Sequence[Path]) -> str:
    """How messages name the files of a split: by the first."""
    return f"{files[0]}{' and on' if len(files) > 1 else ''}"


def array_part(chunks: Callable[[], Iterable[Pixels]], labels: NDArray[np.generic], where: str) -> Part:
    """A split from arrays of (n, height, width, channels), which are loaded one at a time."""

    def blocks(colour: bool) -> Iterator[Block]:
        start = 0
        for images in chunks():
            for some in in_blocks(len(images), images[:1].nbytes):
                yield Block(images[some], np.arange(start + some.start, start + some.stop))
            start += len(images)

    return Part(as_labels(labels, where), blocks, lambda index: f"image {index} of {where}")


def as_labels(values: NDArray[np.generic], where: str) -> NDArray[np.int64]:
    """Class numbers as int64; raises unless they are a list of whole numbers from 0."""
    flat = values.reshape(-1) if values.ndim == 2 and 1 in values.shape else values
    if flat.ndim != 1 or flat.dtype.kind not in "iu":
        raise MocaError(
            f"labels of {where} have shape {values.shape} and type {values.dtype}; whole numbers are needed"
        )
    if len(flat) and (flat.min() < 0 or flat.max() >= 1 << 20):
        raise MocaError(f"labels of {where} run from {flat.min()} to {flat.max()}; they must count from 0")
    return flat.astype(np.int64)
