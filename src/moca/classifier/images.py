"""Pictures as a user has them, as bytes of the shape that a model takes: arrays, tensors, files, folders, data sets.
Vectors of numbers are samples of one pixel."""

from __future__ import annotations

import numbers
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps
from torch import Tensor

from moca.data.arrays import Label, given, labels_of
from moca.data.decode import SUFFIXES, decode, pixels, reason
from moca.data.fingerprint import Digests, image_digests
from moca.data.place import readable as spelt
from moca.data.readers.folder import has_classes, images_by_class, is_hidden, splits, why_not
from moca.data.sizing import HANDY, handy_side
from moca.data.source import Pixels
from moca.errors import MocaError

Shape = tuple[int, int, int]
"""Channels, height, width."""
Said = Callable[[int, int], None]
"""Told how far something is, of how much."""
_NAMED = 3
"""Images that are named of those left out."""


class BadInput(MocaError, ValueError):
    """Samples or labels that cannot be used, for scikit-learn a `ValueError`."""


class BadKind(MocaError, TypeError):
    """Of a kind that cannot be used, for scikit-learn a `TypeError`."""


class Labelled(NamedTuple):
    """Images, a label each, and the files that they were read from, where they were."""

    images: Tensor
    labels: list[Label]
    files: list[str]


def labelled(
    data: Any,
    labels: Any = None,
    shape: Shape | None = None,
    size: int | None = None,
    say: Callable[[str], None] = warnings.warn,
    read: Said | None = None,
) -> Labelled:
    """Images (n, channels, height, width) as bytes and a label each: of a folder with one for each class, of pairs
    (image, label) such as a torch `Dataset`, or of images and labels; vectors (n, d) as (n, d, 1, 1) floats.

    All have `shape` where it is known, else the one that they have in common, or `size` pixels a side. Images of a
    folder that cannot be read are left out, which `say` is told; `read` is told how many of how many have been read.
    """
    if labels is None and isinstance(data, str | os.PathLike):
        path = Path(data).expanduser()
        if not path.exists():
            raise MocaError(f"folder '{path}' is not there; give one with a folder of images for each class")
        if not path.is_dir() or not has_classes(path):
            why = why_not(path) or (": there is no image in it" if path.is_dir() else ": it is a file")
            raise MocaError(f"'{path}' is no folder with a folder of images for each class{why}")
        if parts := splits(path):
            raise MocaError(
                f"the folders in '{path}' are splits ({', '.join(part.name for part in parts)}), no classes; give the "
                f"one with a folder for each class that is to be learnt from: {parts[0]}"
            )
        return _of_folder(path, shape, size, say, read)
    if are_vectors(data):
        x = vectors(data)
        return Labelled(x, _classes(labels, len(x)), [])
    if labels is None:
        source = given(data, "data")
        return Labelled(_shaped(list(source.take(np.arange(len(source.labels)))), shape, size), source.labels, [])
    images = pictures(data, shape, size)
    return Labelled(images, labels_of(labels, len(images), "data"), [])


def _of_folder(
    path: Path, shape: Shape | None, size: int | None, say: Callable[[str], None], read: Said | None
) -> Labelled:
    files = [(file, name) for name, group in images_by_class(path).items() for file in group]
    images, places = readable([file for file, _ in files], shape, size, say, read)
    found = [files[place] for place in places]
    return Labelled(images, [spelt(name) for _, name in found], [spelt(file) for file, _ in found])


def readable(
    files: Sequence[str],
    shape: Shape | None,
    size: int | None,
    say: Callable[[str], None],
    read: Said | None = None,
) -> tuple[Tensor, list[int]]:
    """The images that can be read, and their places among the files; `say` is told of the others, and `read` how many
    of how many have been looked at."""
    images, places, lost = list[Pixels](), list[int](), list[str]()
    for place, file in enumerate(files):
        try:
            images.append(_read(file, place, shape, size))
            places.append(place)
        except MocaError as error:
            lost.append(str(error))
        if read:
            read(place + 1, len(files))
    if not images:
        none = f"none of the {len(files)} images can be used; the first: " if len(files) > 1 else ""
        raise MocaError(none + lost[0])
    if lost:
        more = f" (and {len(lost) - _NAMED} more)" if len(lost) > _NAMED else ""
        say(f"{len(lost)} of {len(files)} images left out: {'; '.join(lost[:_NAMED])}{more}")
    return _shaped(images, shape, size), places


def digests_of(x: Tensor) -> Digests:
    """Digests of samples (n, channels, height, width), to tell them apart by."""
    rows = x.permute(0, 2, 3, 1).contiguous().numpy()
    return image_digests(rows if rows.dtype == np.uint8 else rows.view(np.uint8))


def are_vectors(data: Any) -> bool:
    """Whether it is a table of numbers, a row for each sample; or a single row, which is then refused."""
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
    from sklearn.utils import check_array  # here, as it takes long to load and images do without

    def numbers_of(rows: Any) -> Any:
        return rows.detach().cpu().float().numpy() if isinstance(rows, Tensor) else rows

    rows = [numbers_of(row) for row in data] if isinstance(data, list | tuple) else numbers_of(data)
    with _in_one_line():
        table: NDArray[np.float32] = check_array(rows, dtype=np.float32, input_name="X")
    return torch.from_numpy(table.copy())[:, :, None, None]


def _classes(labels: Any, count: int) -> list[Label]:
    """The label of each vector, by scikit-learn's rules; whole numbers may be floats."""
    from sklearn.utils import column_or_1d
    from sklearn.utils.multiclass import check_classification_targets

    if labels is None:
        raise BadInput(
            "vectors are learnt with labels: this classifier requires y to be passed, but the target y is None"
        )
    with _in_one_line():
        told = column_or_1d(labels.cpu() if isinstance(labels, Tensor) else labels, warn=True)
        if told.dtype == object and len({isinstance(label, str) for label in told}) > 1:
            raise ValueError("labels are of one kind, whole numbers or names; these are of both")
        check_classification_targets(told)
        if len(told) != count:
            raise ValueError(f"there are {count} vectors and {len(told)} labels; there must be a label for each")
    kept = told.astype(np.int64) if told.dtype.kind == "f" else told
    return labels_of(kept, count, "data")


@contextmanager
def _in_one_line() -> Iterator[None]:
    """Inside, what scikit-learn refuses is a mistake that a user can mend."""
    try:
        yield
    except (TypeError, ValueError) as error:
        kind = BadKind if isinstance(error, TypeError) else BadInput
        raise kind(" ".join(str(error).split())) from None


def pictures(data: Any, shape: Shape | None = None, size: int | None = None) -> Tensor:
    """Images (n, channels, height, width) as bytes: of an array or tensor, a file or a folder, or a list of any."""
    several = [data] if isinstance(data, str | os.PathLike | Image.Image) or _is_one(data) else data
    if not hasattr(several, "__len__"):
        raise BadKind(f"a {type(several).__name__} holds no images; give an array, a tensor, pictures, files or a list")
    if len(several) == 0:
        raise MocaError("there are no images; give at least one")
    if isinstance(several, Sequence):
        files = [file for one in several for file in (files_of(one) if isinstance(one, str | os.PathLike) else [one])]
        return _shaped([_read(one, number, shape, size) for number, one in enumerate(files)], shape, size)
    source = given((several, [0] * len(several)), "data")
    return _shaped(list(source.take(np.arange(len(several)))), shape, size)


def _is_one(data: Any) -> bool:
    """Whether an array is a single image in colour (height, width, channels): as many images (n, height, width), each
    would be 3 or 4 pixels wide."""
    shape: tuple[int, ...] = getattr(data, "shape", ())
    return len(shape) == 3 and shape[2] in (3, 4) and min(shape[:2]) > 4


def files_of(path: str | os.PathLike[str]) -> list[str]:
    """The image itself, or those in a folder and the folders in it, sorted, less hidden ones."""
    place = Path(path).expanduser()
    if not place.is_dir():
        return [str(place)]
    found = list[str]()
    for folder, folders, names in os.walk(place, onerror=_unreadable):
        folders[:] = [name for name in folders if not is_hidden(name)]
        files = (Path(folder, name) for name in names if name.lower().endswith(SUFFIXES) and not is_hidden(name))
        found += [str(file) for file in files if file.is_file()]
    if not found:
        raise MocaError(f"there is no image in '{place}'; give images, or a folder that has some")
    return sorted(found)


def _unreadable(error: OSError) -> None:
    raise MocaError(f"cannot read the folder {error.filename} ({error.strerror}); check its permissions")


def _read(one: Any, number: int, shape: Shape | None, size: int | None) -> Pixels:
    """One picture. Photographs in files are brought at once to the side that is wanted, so that many fit the memory;
    each by itself, as the first of them may be small, or broken."""
    side = size or (shape[1] if shape is not None and shape[1] == shape[2] else None)
    try:
        if isinstance(one, str):
            image = decode(one, side, colour=True)
            handy = None if side or shape else handy_side(*image.shape[:2])
            return fitted(image, (3, handy, handy)) if handy else image
        if isinstance(one, Image.Image):
            return pixels(one, side)
    except Exception as error:
        raise MocaError(f"'{spelt(str(one))}' cannot be used: {reason(error)}") from None
    given_one: Pixels = given(([one], [0]), f"data[{number}]").take(np.arange(1))[0]
    return given_one


def _shaped(images: list[Pixels], shape: Shape | None, size: int | None) -> Tensor:
    """All as one tensor, of the shape given, or the one that they share."""
    if shape is None:
        sides, channels = {image.shape[:2] for image in images}, max(image.shape[2] for image in images)
        height, width = sides.pop() if len(sides) == 1 else (HANDY, HANDY)
        shape = (channels, size or height, size or width)
    rows = np.stack([fitted(image, shape) for image in images])
    return torch.from_numpy(rows).permute(0, 3, 1, 2).contiguous()


def fitted(image: Pixels, shape: Shape) -> Pixels:
    """A picture (height, width, channels) brought to the shape, grey or in colour, cut where its sides differ."""
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
