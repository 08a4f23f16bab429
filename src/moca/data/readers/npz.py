"""Arrays saved by numpy: one .npz file, or a folder of .npy files."""

import math
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from moca.data.decompression import refuse_growth
from moca.data.source import MOST_BYTES, Options, Part, Pixels, Source, array_part, in_blocks
from moca.errors import MocaError

_IMAGES = {
    "train": ("train_images", "x_train", "X_train", "images_train", "train_x"),
    "test": ("test_images", "x_test", "X_test", "images_test", "test_x", "val_images", "x_val"),
    "": ("images", "x", "X", "data"),
}
_LABELS = {
    "train": ("train_labels", "y_train", "labels_train", "train_y"),
    "test": ("test_labels", "y_test", "labels_test", "test_y", "val_labels", "y_val"),
    "": ("labels", "y", "Y", "targets"),
}
_CLASSES = ("classes", "class_names", "label_names")
Array = Callable[[], IO[bytes]]


def recognise(path: Path) -> bool:
    """Whether this is an .npz file, or a folder with .npy files of images."""
    if path.is_dir():
        return any((path / f"{name}.npy").is_file() for names in _IMAGES.values() for name in names)
    return path.suffix == ".npz"


def read(path: Path, options: Options) -> Source:
    """Read arrays with the usual names: train_images, train_labels, ...; x_train, y_train, ...; or images, labels."""
    with _clearly(path):
        arrays = _arrays(path)
        train = _part(path, arrays, "train", options.most) or _part(path, arrays, "", options.most)
        if train is None:
            raise MocaError(
                f"{path} has no images and labels among its arrays ({', '.join(sorted(arrays))}); "
                "name them train_images, train_labels, test_images, test_labels"
            )
        names = next((_whole(arrays[key]) for key in _CLASSES if key in arrays), None)
        classes = None if names is None else tuple(map(str, names.ravel()))
        return Source("numpy arrays", train, _part(path, arrays, "test", options.most), classes)


class _Unfit(Exception):
    """An array that is complete but cannot be used: its name, and why."""


@contextmanager
def _clearly(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, EOFError, zlib.error, zipfile.BadZipFile) as error:
        raise MocaError(f"{path} cannot be read as numpy arrays ({error}); it may be cut short") from None
    except _Unfit as error:
        raise MocaError(f"{error.args[0]} in {path} {error.args[1]}") from None
    except (NotImplementedError, RuntimeError) as error:  # encrypted, or an unsupported compression
        raise MocaError(f"{path} cannot be opened here ({error}); save it with np.savez") from None


def _arrays(path: Path) -> Mapping[str, Array]:
    if path.is_dir():
        return {p.stem: lambda p=p: p.open("rb") for p in path.glob("*.npy") if p.is_file()}  # type: ignore[misc]
    with zipfile.ZipFile(path) as archive:
        members = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
    return {name: partial(_member, path, name) for name in members}


def _member(path: Path, name: str) -> IO[bytes]:
    with zipfile.ZipFile(path) as archive:  # the file stays open for as long as its member
        return archive.open(f"{name}.npy")


def _part(path: Path, arrays: Mapping[str, Array], split: str, most: int | None) -> Part | None:
    images = next((n for n in _IMAGES[split] if n in arrays), None)
    labels = next((n for n in _LABELS[split] if n in arrays), None)
    if images is None:
        return None
    if labels is None:
        raise MocaError(f"{path} has images '{images}' but no labels for them; add '{_LABELS[split][0]}'")
    where = f"'{images}' in {path}"

    def chunks() -> Iterator[Pixels]:
        with _clearly(path), arrays[images]() as stream:
            shape, dtype = _header(stream)
            size = max(1, math.prod(shape[1:]) * dtype.itemsize)
            if path.is_file():
                refuse_growth(path, shape[0] * size, most)
            for some in in_blocks(shape[0], size):
                count = some.stop - some.start
                flat = np.frombuffer(_exactly(stream, count * size), dtype)
                yield _as_pixels(flat.reshape(count, *shape[1:]), where)

    return array_part(chunks, _whole(arrays[labels]), where)


def _header(stream: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[np.generic]]:
    """Read the shape and type of an array; leaves the stream at the first byte of its data."""
    try:
        major, _ = np.lib.format.read_magic(stream)
        reading = np.lib.format.read_array_header_1_0 if major == 1 else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = reading(stream)
    except Exception as error:
        raise ValueError(f"its header is damaged: {error}") from None
    name = f"'{Path(stream.name).stem}'"
    if dtype.hasobject:
        advice = "save images of one size as uint8, labels as int64 and names as str: np.array(values, dtype)"
        raise _Unfit(name, f"holds Python objects, which are never loaded; {advice}")
    if fortran and len(shape) > 1:
        raise _Unfit(name, "is in Fortran order; save np.ascontiguousarray of it")
    if not shape or min(shape) < 0:
        raise _Unfit(name, f"has the shape {shape}; there must be one entry for each image")
    return shape, dtype


def _as_pixels(images: NDArray[np.generic], where: str) -> Pixels:
    """Arrays of common shapes as (n, height, width, channels) bytes, without a copy."""
    if images.dtype != np.uint8:
        raise MocaError(f"images of {where} have type {images.dtype}; bytes (uint8, 0 to 255) are needed")
    if images.ndim == 3:
        images = images[..., None]
    if images.ndim != 4:
        raise MocaError(f"images of {where} have shape {images.shape}; (n, height, width[, channels]) is needed")
    if images.shape[3] not in (1, 3) and images.shape[1] in (1, 3):
        images = images.transpose(0, 2, 3, 1)
    if images.shape[3] not in (1, 3):
        raise MocaError(f"images of {where} have shape {images.shape}; the last axis must be 1 (grey) or 3 (colour)")
    return images  # type: ignore[return-value]


def _whole(array: Array) -> NDArray[np.generic]:
    with array() as stream:
        shape, dtype = _header(stream)
        return np.frombuffer(_exactly(stream, math.prod(shape) * dtype.itemsize), dtype).reshape(shape)


def _exactly(stream: IO[bytes], count: int) -> bytes:
    if count > MOST_BYTES:
        raise ValueError(f"it claims to hold an image or labels of {count:,} bytes")
    data = stream.read(count)
    if len(data) != count:
        raise EOFError(f"{count - len(data)} bytes are missing")
    return data
