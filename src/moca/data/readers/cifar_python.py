"""CIFAR-10 and CIFAR-100 in the Python version: pickles of flat images."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from moca.data.readers.cifar import TEN, files
from moca.data.source import Options, Part, Pixels, Source, array_part, name_of
from moca.data.unpickle import unpickle
from moca.errors import MocaError


def recognise(path: Path) -> bool:
    """Whether a folder has data_batch_1 to 5 and test_batch, or train, test and meta."""
    if not path.is_dir():
        return False
    ten = any((path / name).is_file() for name in (*TEN, "test_batch"))
    return ten or all((path / name).is_file() for name in ("train", "test", "meta"))


def read(path: Path, options: Options) -> Source:
    """Read five files of training images (CIFAR-100: one) and one of test images; CIFAR-100 with its fine labels."""
    found = files(path)
    about = path / ("meta" if found.hundred else "batches.meta")
    names = unpickle(about).get("fine_label_names" if found.hundred else "label_names") if about.is_file() else None
    if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise MocaError(f"{about} has names that are not text; fetch it again")
    classes = tuple(names) if names else None
    return Source(f"{found.title} pickles", _part(found.train), _part(found.test), classes)


def _part(paths: Sequence[Path]) -> Part:
    def chunks() -> Iterator[Pixels]:
        for path in paths:
            yield _images(path, unpickle(path))

    labels = [_labels(path, unpickle(path)) for path in paths]
    return array_part(chunks, np.concatenate(labels), name_of(paths))


def _images(path: Path, raw: dict[str, Any]) -> Pixels:
    data = raw.get("data")
    if not isinstance(data, np.ndarray) or data.ndim != 2 or data.shape[1] != 3072:
        raise MocaError(f"{path} has no images of 3 x 32 x 32 bytes; fetch it again")
    return data.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)


def _labels(path: Path, raw: dict[str, Any]) -> np.ndarray[Any, np.dtype[np.int64]]:
    labels = raw.get("fine_labels", raw.get("labels"))
    if not isinstance(labels, list) or not all(isinstance(label, int) and 0 <= label < 100 for label in labels):
        raise MocaError(f"{path} has no labels from 0 to 99; fetch it again")
    count = len(_images(path, raw))
    if len(labels) != count:
        raise MocaError(f"{path} has {len(labels)} labels for {count} images; fetch it again")
    return np.array(labels, np.int64)
