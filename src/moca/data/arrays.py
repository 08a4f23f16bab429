"""Convert images and labels from Python objects of any kind to bytes with channels last, and vectors to floats."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from moca.data.decode import over_white, pixels
from moca.data.in_memory import Split
from moca.data.source import Pixels, in_blocks
from moca.errors import MocaError

ONE_A_TASK = "for one data set for each task, give moca.domain_incremental([moca.dataset(...), moca.dataset(...), ...])"
"""The hint when several data sets are given as one."""
Label = int | str
Shape = tuple[int, int, int]
_CHANNELS = (1, 3, 4)
_ALONE = (str, Mapping, np.ndarray, Tensor)
"""Types that have a length but hold no (image, label) pairs."""


@dataclass(frozen=True)
class Given:
    """One split as the user passed it."""

    labels: list[Label]
    shape: Shape
    """Height, width, channels; (1, 1, d) for vectors of d numbers."""
    take: Callable[[NDArray[np.int64]], NDArray[Any]]
    """Returns the images at these indices as bytes, or the vectors as floats."""
    alpha: bool = False
    """Whether images had transparency and were composited over white."""
    vectors: bool = False
    """Whether the samples are vectors instead of images."""

    def blocks(self, order: NDArray[np.int64]) -> Iterable[NDArray[Any]]:
        """The images in the given order, in blocks."""
        return (self.take(order[some]) for some in in_blocks(len(order), int(np.prod(self.shape))))


def images_or_vectors(data: Any, split: str) -> Given:
    """Read a split from a pair (samples, labels), or from a sequence of pairs (sample, label)."""
    found = _vectors(data, split) if _is_pair(data) else _vector_pairs(data, split)
    if found is None:
        return given(data, split)
    rows, labels = found
    _refuse_other_count(labels, len(rows), split, "vectors")
    return Given(labels, (1, 1, rows.shape[-1]), lambda chosen: rows[chosen], vectors=True)


def _is_pair(data: Any) -> bool:
    """Whether it is a pair (samples, labels)."""
    return isinstance(data, tuple | list) and len(data) == 2 and not isinstance(data[0], tuple)


def given(data: Any, split: str) -> Given:
    """Read a split of images from a pair (images, labels), or from a sequence of pairs (image, label)."""
    if isinstance(data, Split):
        data = (data.images, data.labels)
    if _is_pair(data):
        (images, alpha), labels = _images(data[0], split), _labels(data[1], split)
    elif hasattr(data, "__len__") and hasattr(data, "__getitem__") and not isinstance(data, _ALONE):
        images, labels, alpha = _pairs(data, split)
    else:
        raise MocaError(
            f"{split} is of type {type(data).__name__}; give a pair (images, labels), or a torch Dataset of "
            "(image, label) (of a DataLoader its .dataset, of a generator a list; a set by name with moca.load)"
        )
    if images.size == 0:
        raise MocaError(f"{split} has no images; give at least two of each class")
    _refuse_other_count(labels, len(images), split)
    _refuse_range(images, split)
    shape = (images.shape[1], images.shape[2], min(images.shape[3], 3))
    return Given(labels, shape, lambda rows: _bytes(images[rows]), alpha)


def _vectors(pair: Any, split: str) -> tuple[NDArray[np.float32], list[Label]] | None:
    """Vectors (n, 1, 1, d) and labels, if this is a pair (table of floats, labels)."""
    table, labels = pair
    if isinstance(table, list | tuple) and all(isinstance(row, np.ndarray | Tensor) and row.ndim == 1 for row in table):
        if len({len(row) for row in table}) > 1:
            raise MocaError(f"vectors of {split} differ in length; give as many numbers for each sample")
        table = np.stack([_numpy(row, split)[0] for row in table]) if table else table
    if not isinstance(table, np.ndarray | Tensor) or table.ndim != 2 or 0 in table.shape:
        return None
    if not (table.is_floating_point() if isinstance(table, Tensor) else table.dtype.kind == "f"):
        raise MocaError(
            f"{split} is a table {tuple(table.shape)} of {table.dtype}; images are (n, height, width[, channels]), and "
            "vectors are floats (n, d), such as embeddings (of text too, in place of its tokens)"
        )
    rows = np.array(_numpy(table, split)[0], np.float32)
    if not np.isfinite(rows).all():
        raise MocaError(f"vectors of {split} have numbers that are NaN or infinite; remove them")
    return rows[:, None, None, :], _labels(labels, split)


def _vector_pairs(data: Any, split: str) -> tuple[NDArray[np.float32], list[Label]] | None:
    """The same, if these are pairs (vector, label), such as a torch `TensorDataset`."""
    if not (hasattr(data, "__len__") and hasattr(data, "__getitem__")) or isinstance(data, _ALONE) or not len(data):
        return None
    first = data[0]
    vector = first[0] if isinstance(first, tuple | list) and len(first) == 2 else None
    if not isinstance(vector, np.ndarray | Tensor) or vector.ndim != 1:
        return None
    rows, labels = zip(*(data[index] for index in range(len(data))), strict=True)
    return _vectors((rows, labels), split)


def labels_of(labels: Any, count: int, split: str) -> list[Label]:
    """Labels as a list of ints or names; raise unless there are `count`."""
    converted = _labels(labels, split)
    _refuse_other_count(converted, count, split)
    return converted


def _refuse_other_count(labels: list[Label], count: int, split: str, kind: str = "images") -> None:
    if count != len(labels):
        raise MocaError(f"{split} has {count} {kind} and {len(labels)} labels; there must be a label for each")


def _images(images: Any, split: str) -> tuple[NDArray[Any], bool]:
    """Images as (n, height, width, channels), a view if possible, and whether they have an alpha channel."""
    if isinstance(images, list | tuple):
        collected, _, alpha = _pairs([(image, 0) for image in images], split)
        return collected, alpha
    array = _channels_last(*_numpy(images, split), split)
    return array, array.shape[3] == 4


def _numpy(images: Any, split: str) -> tuple[NDArray[Any], bool]:
    """An array of bytes or floats, and whether it was a tensor."""
    torchlike = isinstance(images, Tensor)
    if torchlike:
        images = images.detach().cpu()
        images = (images.float() if images.dtype == torch.bfloat16 else images).numpy()
    if not isinstance(images, np.ndarray) or (images.dtype != np.uint8 and images.dtype.kind != "f"):
        kind = images.dtype if isinstance(images, np.ndarray) else type(images).__name__
        raise MocaError(f"images of {split} are of type {kind}; give uint8 (0 to 255), or floats from 0 to 1")
    return images, torchlike


def _channels_last(images: NDArray[Any], torchlike: bool, split: str) -> NDArray[Any]:
    """Move the channel axis last: the one of length 1, 3 or 4. If both ends qualify, 1 or 3 goes before 4; if that does
    not decide, tensors have channels first and arrays have them last."""
    if images.ndim == 3:
        return images[..., None]
    if images.ndim != 4 or not {images.shape[1], images.shape[3]} & set(_CHANNELS):
        raise MocaError(
            f"images of {split} have shape {images.shape}; (n, height, width), (n, height, width, channels) or "
            "(n, channels, height, width) is needed, with 1, 3 or 4 channels"
        )
    first, last = (_CHANNELS.index(n) if n in _CHANNELS else len(_CHANNELS) for n in images.shape[1::2])
    unclear = first == last or max(first, last) < 2
    return images.transpose(0, 2, 3, 1) if (torchlike if unclear else first < last) else images


def _refuse_range(images: NDArray[Any], split: str) -> None:
    if images.dtype.kind != "f" or images.size == 0:
        return
    blocks = [images[some] for some in in_blocks(len(images), images[:1].nbytes)]
    low, high = min(float(b.min()) for b in blocks), max(float(b.max()) for b in blocks)
    if any(bool(np.isnan(b).any()) for b in blocks):
        raise MocaError(f"images of {split} have pixels that are NaN; remove them")
    if low < 0 or high > 1:
        raise MocaError(
            f"images of {split} are floats from {low:g} to {high:g}, not from 0 to 1; divide them by their largest "
            "value, leave normalisation out (moca does it), or give uint8"
        )


def _bytes(images: NDArray[Any]) -> Pixels:
    """Images (..., channels) as bytes; an alpha channel is composited over white."""
    whole = np.ascontiguousarray(np.rint(images * 255) if images.dtype.kind == "f" else images, np.uint8)
    if whole.shape[-1] != 4:
        return whole
    flat = Image.fromarray(whole.reshape(-1, *whole.shape[-2:]))
    return np.asarray(over_white(flat)).reshape(*whole.shape[:-1], 3)


def _pairs(data: Any, split: str) -> tuple[Pixels, list[Label], bool]:
    """Images and labels of a torch data set, read once, and whether any had transparency. One colour image makes all of
    them colour."""
    images, labels, transparent = np.empty((0, 1, 1, 1), np.uint8), [], False
    for index in range(len(data)):
        item = data[index]
        if not isinstance(item, tuple | list) or len(item) != 2:
            raise MocaError(f"{split}[{index}] is not a pair (image, label); give a data set of such pairs")
        if _is_data_set(*item):
            raise MocaError(f"{split}[{index}] has {len(item[1])} labels, so it is no image; {ONE_A_TASK}")
        image, alpha = _image(item[0], f"{split}[{index}]")
        transparent |= alpha
        if index == 0:
            images = np.empty((len(data), *image.shape), np.uint8)
        if image.shape[:2] != images.shape[1:3]:
            one, other = (f"{height}x{width}" for height, width in (image.shape[:2], images.shape[1:3]))
            raise MocaError(f"{split}[{index}] has {one} pixels, images before it {other}; resize all to one size")
        if image.shape[2] > images.shape[3]:
            images = np.repeat(images, 3, axis=3)
        images[index] = image
        labels.append(_label(item[1], split))
    return images, labels, transparent


def _is_data_set(images: Any, labels: Any) -> bool:
    """Whether these are several images with a label each, rather than one image with its label."""
    shape = np.shape(labels) if isinstance(labels, list | tuple | np.ndarray | Tensor) else ()
    return len(shape) == 1 and shape[0] > 1 and np.shape(images)[:1] == shape


def _image(image: Any, where: str) -> tuple[Pixels, bool]:
    if isinstance(image, Image.Image):
        try:
            return pixels(image), image.has_transparency_data
        except (ValueError, OSError) as error:
            raise MocaError(f"{where} cannot be used ({error}); convert it to L or RGB") from None
    array, torchlike = _numpy(image, where)
    if array.ndim == 1:
        raise MocaError(f"{where} is a vector of {len(array)} numbers; give vectors as a table (n, d) with labels")
    whole = _channels_last(array[None], torchlike, where)
    _refuse_range(whole, where)
    return _bytes(whole[0]), whole.shape[3] == 4


def _labels(labels: Any, split: str) -> list[Label]:
    if isinstance(labels, list | tuple):
        return [_label(label, split) for label in labels]
    array = labels.detach().cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise MocaError(
            f"labels of {split} have shape {array.shape}; there must be one for each image (one-hot: .argmax(1))"
        )
    return [_label(label, split) for label in array.tolist()]


def _label(label: Any, split: str) -> Label:
    plain = label.item() if isinstance(label, np.generic | np.ndarray | Tensor) and len(label.shape) == 0 else label
    if not isinstance(plain, int | str):
        raise MocaError(f"a label of {split} is {plain!r}; labels are whole numbers or names")
    return plain
