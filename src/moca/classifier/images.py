"""Read images in any form (arrays, tensors, files, folders, data sets) as bytes of the shape that a model takes.

Vectors of numbers become samples of one pixel.
"""

from __future__ import annotations

import numbers
import os
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps
from torch import Tensor

from moca.cores import cores
from moca.data.arrays import Label, given, labels_of
from moca.data.decode import SUFFIXES, decode, pixels, reason
from moca.data.fingerprint import Digests, image_digests
from moca.data.place import readable as spelt
from moca.data.progress import Watch, silent
from moca.data.readers.folder import files_by_class, has_classes, is_hidden, refuse_mostly_empty, splits, why_not
from moca.data.sizing import HANDY, handy_side
from moca.data.source import Pixels
from moca.errors import MocaError

Shape = tuple[int, int, int]
"""Channels, height, width."""
_MOST_THREADS = 4
"""Small images spend most of their time in Python, and are slower with many threads (benchmarks/data_import.py)."""
_NAMED = 3
"""How many skipped images a message names."""


class BadInput(MocaError, ValueError):
    """Raised for samples or labels that cannot be used; scikit-learn expects a `ValueError`."""


class BadKind(MocaError, TypeError):
    """Raised for input of a type that cannot be used; scikit-learn expects a `TypeError`."""


class Unreadable(MocaError):
    """Raised for an image that cannot be read; `why` says it in a few words."""

    def __init__(self, image: object, why: str) -> None:
        super().__init__(f"'{spelt(str(image))}' cannot be used: {why}")
        self.why = why


class Labelled(NamedTuple):
    """Images and their labels."""

    images: Tensor
    labels: list[Label]
    files: Sequence[str] = ()
    """The files that they were read from, if they are of a folder."""
    unreadable: Sequence[str] = ()
    """A line for each image of the folder that could not be read."""


def labelled(
    data: Any,
    labels: Any = None,
    shape: Shape | None = None,
    size: int | None = None,
    watch: Watch = silent,
) -> Labelled:
    """Images (n, channels, height, width) as bytes with their labels, or vectors (n, d) as (n, d, 1, 1) floats.

    `data` is a folder with a subfolder per class, pairs (image, label) such as a torch `Dataset`, or images with
    `labels`. Images get the shape `shape` if given, else `size` pixels a side, else the shape they have in common.
    `watch(stage, done, total)` is called while they are read.
    """
    if labels is None and isinstance(data, str | os.PathLike):
        path = Path(data).expanduser()
        if not path.exists():
            raise MocaError(f"folder '{path}' is not there; give one with a folder of images for each class")
        if not path.is_dir() or not has_classes(path):
            if path.is_dir() and not any(path.iterdir()):
                raise MocaError(f"'{path}' has no subfolders; each class needs one")
            why = why_not(path) or (": there is no image in it" if path.is_dir() else ": it is a file")
            raise MocaError(f"'{path}' is no folder with a folder of images for each class{why}")
        if parts := splits(path):
            raise MocaError(
                f"the folders in '{path}' are splits ({', '.join(part.name for part in parts)}), not classes; give the "
                f"one with a folder for each class that is to be learnt from: {parts[0]}"
            )
        return _of_folder(path, shape, size, watch)
    data = _listed(data)
    if are_vectors(data):
        x = vectors(data)
        return Labelled(x, _classes(labels, len(x)))
    if labels is None:
        source = given(data, "data")
        return Labelled(_shaped(list(source.take(np.arange(len(source.labels)))), shape, size), source.labels)
    images = pictures(data, shape, size, len(labels) if hasattr(labels, "__len__") else None)
    return Labelled(images, labels_of(labels, len(images), "data"))


def _of_folder(path: Path, shape: Shape | None, size: int | None, watch: Watch) -> Labelled:
    by_class = files_by_class(path)
    if shape is None:  # later lessons may have few of the classes
        refuse_mostly_empty(path, by_class)
    files = [(file, name) for name, group in by_class.items() for file in group]
    images, errors = readable([file for file, _ in files], shape, size, watch)
    lines = list(map(str, errors.values()))
    if not images:
        raise MocaError(left_out(lines, len(files)))
    found = [place for index, place in enumerate(files) if index not in errors]
    labels: list[Label] = [class_name(spelt(name)) for _, name in found]
    return Labelled(_shaped(images, shape, size), labels, [spelt(file) for file, _ in found], lines)


def class_name(text: str) -> str:
    """The name of a class in one spelling: without spaces around it, and in Unicode's composed form (NFC), since some
    systems and archives decompose the letters of a folder's name."""
    return unicodedata.normalize("NFC", text).strip() or text


def meant(name: str, known: Collection[Label]) -> Label:
    """The known class of this name: classes taught in Python may be numbers, or names in another spelling. If there is
    none, the name in one spelling."""
    if name in known:
        return name
    return next((label for label in known if class_name(str(label)) == class_name(name)), class_name(name))


def readable(
    files: Sequence[str | bytes], shape: Shape | None, size: int | None, watch: Watch = silent
) -> tuple[list[Pixels], dict[int, Unreadable]]:
    """The images that can be read, and the errors of the others by their index in `files`; `watch(stage,
    done, total)` is called after each file."""
    images, errors = list[Pixels](), dict[int, Unreadable]()
    for index, found in enumerate(_decoded(files, shape, size)):
        if isinstance(found, Unreadable):
            errors[index] = found
        else:
            images.append(found)
        watch("reading images", index + 1, len(files))
    return images, errors


def _decoded(files: Sequence[str | bytes], shape: Shape | None, size: int | None) -> Iterator[Pixels | Unreadable]:
    """Each image or why it cannot be read, in order, decoded in threads: Pillow releases the GIL for most of the
    work."""

    def attempt(number: int) -> Pixels | Unreadable:
        try:
            return _read(files[number], number, shape, size)
        except Unreadable as error:
            return error

    pool = ThreadPoolExecutor(min(cores(), _MOST_THREADS), "decode")
    try:
        yield from pool.map(attempt, range(len(files)))
    finally:
        pool.shutdown(cancel_futures=True)  # after Ctrl-C, only the images that were begun are waited for


def left_out(lines: Sequence[str], count: int) -> str:
    """One line about the images, `count` in all, that cannot be read; `lines` has a line for each."""
    if len(lines) == count:
        return (f"none of the {count} images can be used; the first: " if count > 1 else "") + lines[0]
    return f"{len(lines)} of {count} images left out: {first_of(lines)}"


def first_of(lines: Sequence[str]) -> str:
    """The first lines as one, and how many more there are."""
    more = f" (and {len(lines) - _NAMED} more)" if len(lines) > _NAMED else ""
    return f"{'; '.join(lines[:_NAMED])}{more}"


def digests_of(x: Tensor) -> Digests:
    """One digest per sample (n, channels, height, width); equal samples have equal digests."""
    rows = x.permute(0, 2, 3, 1).contiguous().numpy()
    return image_digests(rows if rows.dtype == np.uint8 else rows.view(np.uint8))


def _listed(data: Any) -> Any:
    """An array or column of file names as a list; anything else as it is."""
    kind = getattr(getattr(data, "dtype", None), "kind", "")
    names = np.asarray(data).tolist() if kind in ("U", "O") else None
    return names if names and all(isinstance(name, str | os.PathLike) for name in names) else data


def are_vectors(data: Any) -> bool:
    """Whether the data is a table of numbers with a row per sample; also true for a single row, which `vectors`
    refuses."""
    data = _listed(data)
    if isinstance(data, list | tuple) and data:
        first = data[0]
        if isinstance(first, list | tuple):
            return bool(first) and all(isinstance(value, numbers.Number) for value in first)
        return isinstance(first, np.ndarray | Tensor) and first.ndim == 1
    if not hasattr(data, "shape") and hasattr(data, "__array__") and not isinstance(data, Image.Image):
        data = np.asarray(data)
    return len(getattr(data, "shape", ())) in (1, 2) and getattr(getattr(data, "dtype", None), "kind", "f") not in "US"


def vectors(data: Any) -> Tensor:
    """Vectors as (n, d, 1, 1) floats: samples of one pixel with d channels."""
    from sklearn.utils import check_array  # imported late: it is slow to load, and images do not need it

    def numbers_of(rows: Any) -> Any:
        return rows.detach().cpu().float().numpy() if isinstance(rows, Tensor) else rows

    rows = [numbers_of(row) for row in data] if isinstance(data, list | tuple) else numbers_of(data)
    with _in_one_line():
        table: NDArray[np.float32] = check_array(rows, dtype=np.float32, input_name="X")
    return torch.from_numpy(table.copy())[:, :, None, None]


def _classes(labels: Any, count: int) -> list[Label]:
    """Labels of vectors, checked by scikit-learn's rules; whole numbers may be floats."""
    from sklearn.utils import column_or_1d
    from sklearn.utils.multiclass import check_classification_targets

    if labels is None:
        raise BadInput(
            "vectors are learnt with labels: this classifier requires y to be passed, but the target y is None"
        )
    with _in_one_line():
        column = column_or_1d(labels.cpu() if isinstance(labels, Tensor) else labels, warn=True)
        if column.dtype == object and len({isinstance(label, str) for label in column}) > 1:
            raise ValueError("labels are of one kind, whole numbers or names; these are of both")
        check_classification_targets(column)
        if len(column) != count:
            raise ValueError(f"there are {count} vectors and {len(column)} labels; there must be a label for each")
    return labels_of(column.astype(np.int64) if column.dtype.kind == "f" else column, count, "data")


@contextmanager
def _in_one_line() -> Iterator[None]:
    """Turn scikit-learn's errors into MocaErrors of one line."""
    try:
        yield
    except (TypeError, ValueError) as error:
        kind = BadKind if isinstance(error, TypeError) else BadInput
        raise kind(" ".join(str(error).split())) from None


def pictures(data: Any, shape: Shape | None = None, size: int | None = None, count: int | None = None) -> Tensor:
    """Images (n, channels, height, width) as bytes, from an array, a tensor, a file or its content, a folder, or a list
    of these. `count` is their number, if it is known."""
    data = _listed(data)
    alone = isinstance(data, str | bytes | os.PathLike | Image.Image) or _is_one(data, shape, count)
    several = [data] if alone else data
    if not isinstance(several, Sequence | np.ndarray | Tensor):
        raise BadKind(
            f"a {type(several).__name__} holds no images; give an array, a tensor, pictures, files or a list (of a "
            "DataLoader the images of a batch)"
        )
    if len(several) == 0:
        raise MocaError("there are no images; give at least one")
    if isinstance(several, Sequence):
        files = [file for one in several for file in (files_of(one) if isinstance(one, str | os.PathLike) else [one])]
        if len(files) > 1 and all(isinstance(one, str | bytes) for one in files):
            images = list[Pixels]()
            for found in _decoded(files, shape, size):
                if isinstance(found, Unreadable):
                    raise found
                images.append(found)
            return _shaped(images, shape, size)
        return _shaped([_read(one, number, shape, size) for number, one in enumerate(files)], shape, size)
    source = given((several, [0] * len(several)), "data")
    return _shaped(list(source.take(np.arange(len(several)))), shape, size)


def _is_one(data: Any, model: Shape | None, count: int | None) -> bool:
    """Whether an array is a single colour image instead of grey ones (n, height, width). These would be 3 or 4 pixels
    wide; or it is a tensor of the three channels of a model's images. An array may well be of three grey images."""
    shape: tuple[int, ...] = getattr(data, "shape", ())
    if len(shape) != 3 or (count or 1) != 1:
        return False
    channels_first = isinstance(data, Tensor) and model is not None and shape[0] == model[0] == 3
    return (shape[2] in (3, 4) and min(shape[:2]) > 4) or channels_first


def files_of(path: str | os.PathLike[str]) -> list[str]:
    """A file as it is; for a folder, all images in it and its subfolders, linked ones too, sorted, without hidden
    ones."""
    place = Path(path).expanduser()
    if not place.is_dir():
        return [str(place)]
    if found := sorted(map(str, _images_in(place, ()))):
        return found
    raise MocaError(f"there is no image in '{place}'; give images, or a folder that has some")


def _images_in(folder: Path, around: tuple[Path, ...]) -> Iterator[Path]:
    """The images of a folder and its subfolders; `around` has the real paths of the folders that it was reached
    through, since a link may lead back to one of them."""
    if (here := folder.resolve()) in around:
        return
    try:
        entries = [entry for entry in folder.iterdir() if not is_hidden(entry.name)]
    except OSError as error:
        raise MocaError(f"cannot read the folder {folder} ({error.strerror}); check its permissions") from None
    for entry in entries:
        if entry.is_dir():
            yield from _images_in(entry, (*around, here))
        elif entry.name.lower().endswith(SUFFIXES):
            yield entry


def _read(one: Any, number: int, shape: Shape | None, size: int | None) -> Pixels:
    """Read one image. Image files are resized while they are read, so that many fit in RAM; each on its own, because
    the first may be small or broken."""
    side = size or (shape[1] if shape is not None and shape[1] == shape[2] else None)
    try:
        if isinstance(one, str | bytes):
            image = decode(one, side, colour=True)
            handy = None if side or shape else handy_side(*image.shape[:2])
            wanted = (3, handy, handy) if handy else shape
            return fitted(image, wanted) if wanted else image
        if isinstance(one, Image.Image):
            return pixels(one, side)
    except Exception as error:
        raise Unreadable(f"data[{number}]" if isinstance(one, bytes) else one, reason(error)) from None
    given_one: Pixels = given(([one], [0]), f"data[{number}]").take(np.arange(1))[0]
    return given_one


def _shaped(images: list[Pixels], shape: Shape | None, size: int | None) -> Tensor:
    """Stack images into one tensor of the given shape, or the shape they share."""
    if shape is None:
        sides, channels = {image.shape[:2] for image in images}, max(image.shape[2] for image in images)
        height, width = sides.pop() if len(sides) == 1 else (HANDY, HANDY)
        shape = (channels, size or height, size or width)
    rows = np.stack([fitted(image, shape) for image in images])
    return torch.from_numpy(rows).permute(0, 3, 1, 2).contiguous()


def fitted(image: Pixels, shape: Shape) -> Pixels:
    """Resize an image (height, width, channels) to `shape`, converting colour and cropping if the ratio differs."""
    channels, height, width = shape
    if image.shape[2] < channels:
        image = np.repeat(image, channels, axis=2)
    if image.shape == (height, width, channels):
        return image
    picture = Image.fromarray(image if image.shape[2] == 3 else image[..., 0])
    picture = picture if image.shape[2] == channels else picture.convert("L")
    if picture.size != (width, height):
        picture = ImageOps.fit(picture, (width, height), Image.Resampling.BICUBIC)
    return np.asarray(picture).reshape(height, width, channels)
