"""Write the images of a source to arrays in the store's format, in canonical order, a block at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moca.data.fingerprint import Digests, Labels, canonical_order, image_digests
from moca.data.moments import Moments
from moca.data.progress import Watch
from moca.data.source import Part, Source, in_blocks
from moca.errors import MocaError

Shape = tuple[int, int, int]
Progress = Callable[[int], None]


class UnreadableImage(MocaError):
    """An image cannot be read, and unreadable ones are not to be left out."""


class ColourFound(Exception):
    """Raised for a colour image after grey ones: the set must be read again in colour."""


@dataclass(frozen=True)
class Raw:
    """The images of a split on disk, in the order of the source, with what was computed while writing them."""

    path: Path
    shape: Shape
    labels: Labels
    digests: Digests
    rows: NDArray[np.int64]
    """The rows of these images in the source: all but the unreadable ones."""
    bad: Sequence[tuple[int, str]]


def write_raw(part: Part, path: Path, shape: Shape | None, colour: bool, skip_bad: bool, progress: Progress) -> Raw:
    """Write the pixels of a split to disk; `shape` is that of the set's other split, if already known."""
    digests: list[Digests] = []
    rows: list[NDArray[np.int64]] = []
    bad: list[tuple[int, str]] = []
    with path.open("wb") as file:
        for block in part.blocks(colour):
            if block.bad and not skip_bad:
                row, reason = block.bad[0]
                raise UnreadableImage(
                    f"cannot read {part.name(row)}: {reason}; mend it, or leave it out with skip_bad=True"
                )
            bad.extend(block.bad)
            if len(block.rows):
                images = block.images
                shape = shape or (images.shape[1], images.shape[2], images.shape[3])
                images = _fitting(images, shape, lambda: part.name(int(block.rows[0])))  # noqa: B023 - called at once
                file.write(np.ascontiguousarray(images).data)
                digests.append(image_digests(images))
                rows.append(block.rows)
            progress(len(block.rows) + len(block.bad))
    if shape is None or not rows:
        raise MocaError("no readable image found; give a folder or file that holds images")
    good = np.concatenate(rows)
    if len(good) + len(bad) != len(part.labels):
        raise MocaError(
            f"{len(part.labels)} labels for {len(good) + len(bad)} images ({part.name(0)}); there must be one for each"
        )
    return Raw(path, shape, part.labels[good], np.concatenate(digests), good, bad)


def write_splits(
    source: Source, work: Path, skip_bad: bool, watch: Watch, colour: bool = False
) -> tuple[Raw, Raw | None]:
    """Write both splits of a source, in colour if any image is in colour."""
    total = len(source.train.labels) + (len(source.test.labels) if source.test else 0)
    done = 0

    def progress(count: int) -> None:
        nonlocal done
        done += count
        watch("reading", done, total)

    try:
        train = write_raw(source.train, work / "train.raw", None, colour, skip_bad, progress)
        if source.test is None:
            return train, None
        return train, write_raw(source.test, work / "test.raw", train.shape, colour, skip_bad, progress)
    except ColourFound:
        if colour:
            raise MocaError(
                "some images are grey and some are in colour; save all of them with one or three channels"
            ) from None
        return write_splits(source, work, skip_bad, watch, colour=True)


def _fitting(images: NDArray[np.uint8], shape: Shape, name: Callable[[], str]) -> NDArray[np.uint8]:
    if images.shape[1:3] != shape[:2]:
        raise MocaError(
            f"{name()} has {images.shape[1]}x{images.shape[2]} pixels, images before it {shape[0]}x{shape[1]}; "
            "bring all to one size with size= (image_size= of a run)"
        )
    if images.shape[3] == shape[2]:
        return images
    if shape[2] == 1:
        raise ColourFound
    return np.repeat(images, 3, axis=3)


@dataclass(frozen=True)
class Selection:
    """Some images of a raw split, by position."""

    raw: Raw
    members: NDArray[np.int64]

    @property
    def labels(self) -> Labels:
        """Their classes."""
        return self.raw.labels[self.members]

    @property
    def digests(self) -> Digests:
        """Their digests."""
        return self.raw.digests[self.members]


def write_arrays(chosen: Selection, folder: Path, split: str) -> Moments:
    """Write images and labels in canonical order; return the moments of the channels.

    Images are read with plain reads: memory-mapping the raw file would count all of it as used memory.
    """
    members = chosen.members[canonical_order(chosen.labels, chosen.digests)]
    shape = chosen.raw.shape
    size = int(np.prod(shape))
    moments = Moments(shape[2])
    blocks = [members[some] for some in in_blocks(len(members), size)]
    buffer = np.empty((len(blocks[0]) if blocks else 0, size), np.uint8)
    with chosen.raw.path.open("rb", buffering=0) as source, (folder / f"{split}_images.npy").open("wb") as out:
        header = {"descr": "|u1", "fortran_order": False, "shape": (len(members), *shape)}
        np.lib.format.write_array_header_1_0(out, header)
        for block in blocks:
            for row, index in zip(buffer, block.tolist(), strict=False):
                source.seek(index * size)
                source.readinto(row.data)
            filled = buffer[: len(block)]
            out.write(filled.data)
            moments.add(filled)
    np.save(folder / f"{split}_labels.npy", chosen.raw.labels[members])
    return moments
