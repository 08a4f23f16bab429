"""idx files, the format of MNIST and similar sets, plain or gzipped."""

import gzip
import math
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

import numpy as np
from numpy.typing import NDArray

from moca.data.decompression import refuse_growth
from moca.data.source import MOST_BYTES, Options, Part, Pixels, Source, array_part, in_blocks
from moca.errors import MocaError

_SPLITS = {"train": ("train",), "test": ("t10k", "test")}
_UINT8 = 8


def recognise(path: Path) -> bool:
    """Whether a folder has files such as train-images-idx3-ubyte or train-images.idx3-ubyte.gz."""
    return path.is_dir() and _find(path, "train", "images") is not None


def read(path: Path, options: Options) -> Source:
    """Read images and labels of both splits, or only of the training split if there are no test files."""
    train = _part(path, "train", options.most)
    assert train is not None
    return Source("idx files", train, _part(path, "test", options.most))


def _find(path: Path, split: str, what: str) -> Path | None:
    for start in _SPLITS[split]:
        for rank in ("idx3", "idx1"):
            for found in sorted(path.glob(f"{start}*{what}*{rank}*")):
                if found.suffix != ".part" and found.is_file():
                    return found
    return None


def _part(path: Path, split: str, most: int | None) -> Part | None:
    images, labels = _find(path, split, "images"), _find(path, split, "labels")
    if images is None:
        return None
    if labels is None:
        raise MocaError(f"{path} has {images.name} but no labels for it; put the labels beside it")

    def chunks() -> Iterator[Pixels]:
        with _opened(images) as file:
            shape = _header(file, images)
            if len(shape) != 3:
                raise MocaError(f"{images} holds no images (its shape is {shape}); check the file")
            size = max(1, math.prod(shape[1:]))
            refuse_growth(images, shape[0] * size, most)
            for some in in_blocks(shape[0], size):
                count = some.stop - some.start
                yield _read(file, images, count * size).reshape(count, *shape[1:], 1)

    with _opened(labels) as file:
        shape = _header(file, labels)
        return array_part(chunks, _read(file, labels, math.prod(shape)).reshape(shape), str(images))


def _opened(path: Path) -> IO[bytes]:
    with path.open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    return cast(IO[bytes], gzip.open(path) if zipped else path.open("rb"))


def _header(file: IO[bytes], path: Path) -> tuple[int, ...]:
    try:
        zero, kind, rank = struct.unpack(">HBB", file.read(4))
        if zero != 0 or kind != _UINT8 or not 1 <= rank <= 4:
            raise MocaError(f"{path} is not an idx file of bytes; fetch it again")
        return struct.unpack(f">{rank}I", file.read(4 * rank))
    except (struct.error, EOFError, OSError, zlib.error) as error:
        raise MocaError(f"{path} cannot be read ({error}); fetch it again") from None


def _read(file: IO[bytes], path: Path, count: int) -> NDArray[np.uint8]:
    if count > MOST_BYTES:
        raise MocaError(f"{path} claims to hold images of {count:,} bytes; fetch it again")
    try:
        data = file.read(count)
    except (EOFError, OSError, zlib.error) as error:
        raise MocaError(f"{path} cannot be read ({error}); fetch it again") from None
    if len(data) != count:
        raise MocaError(f"{path} is cut short ({count - len(data)} bytes are missing); fetch it again")
    return np.frombuffer(data, np.uint8)
