"""Parquet files with an image and a label column, as on the Hugging Face hub (extra: parquet)."""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moca.data.decoders import CHUNK, encoded_part
from moca.data.source import Options, Part, Source, as_labels, name_of, unused_note
from moca.errors import MocaError, first_line

_IMAGE = ("image", "img", "images")
_LABEL = ("fine_label", "label", "labels", "target")
_SPLITS = {"train": "train", "training": "train", "test": "test", "val": "val", "valid": "val", "validation": "val"}
"""Words in file names that say which split a file belongs to."""


def recognise(path: Path) -> bool:
    """Whether this is a parquet file, or a folder of them."""
    return path.suffix == ".parquet" if path.is_file() else bool(_files(path))


def _files(path: Path) -> list[Path]:
    found = sorted(path.glob("*.parquet")) or sorted(path.glob("data/*.parquet"))
    return [file for file in found if file.is_file()]


def read(path: Path, options: Options) -> Source:
    """Read parquet files. A word in its name (train, test, validation) says the split of a file; without such words,
    all files are one split."""
    files = [path] if path.is_file() else _files(path)
    train, *tests = [files] if path.is_file() else _by_split(files, path)
    part, classes = _part(train, options)
    test = _part(tests[0], options)[0] if tests else None
    return Source("parquet", part, test, classes, unused_note([group[0] for group in tests]))


def _by_split(files: list[Path], path: Path) -> list[list[Path]]:
    """The training files, then the test files, then the validation files, as far as there are any."""
    found: dict[str, list[Path]] = {}
    for file in files:
        words = re.findall("[a-z]+", file.stem.lower())
        found.setdefault(next((_SPLITS[word] for word in words if word in _SPLITS), ""), []).append(file)
    if len(found) > 1 and "" in found:
        raise MocaError(f"{found[''][0]} does not say its split and other files do; put train or test into its name")
    if "" not in found and "train" not in found:
        raise MocaError(f"{path} has no file to learn from ({files[0].name}, ...); put train into the name of one")
    return [found[split] for split in ("", "train", "test", "val") if split in found]


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """An open file; what goes wrong in it is a `MocaError`."""
    try:
        import pyarrow.parquet as pq
    except ImportError:
        raise MocaError("parquet files need an extra; install it with: pip install 'moca-cl[parquet]'") from None
    try:
        with pq.ParquetFile(path) as file:
            yield file
    except MocaError:
        raise
    except Exception as error:
        why = first_line(error) or type(error).__name__
        raise MocaError(f"{path} is not a readable parquet file ({why}); fetch it again") from None


def _part(files: Sequence[Path], options: Options) -> tuple[Part, tuple[str, ...] | None]:
    """The split in these files, and the class names, if the first file has them."""
    with _opened(files[0]) as first:
        image, label = (_column(first, names, files[0]) for names in (_IMAGE, _LABEL))
        classes, labels = _classes(first), [_labels(first, label)]
    for path in files[1:]:
        with _opened(path) as file:
            labels.append(_labels(file, label))

    def chunks() -> Iterator[list[bytes]]:
        for path in files:
            with _opened(path) as file:
                for batch in file.iter_batches(batch_size=CHUNK, columns=[image]):
                    yield [_bytes(value, path) for value in batch.column(0).to_pylist()]

    where = name_of(files)
    numbers = as_labels(np.concatenate(labels), where)
    return encoded_part(chunks, numbers, lambda row: f"image {row} of {where}", options), classes


def _labels(file: Any, column: str) -> NDArray[Any]:
    labels: NDArray[Any] = file.read(columns=[column]).column(0).to_numpy()
    return labels


def _column(file: Any, names: Sequence[str], path: Path) -> str:
    found = file.schema_arrow.names
    for name in names:
        if name in found:
            return name
    raise MocaError(f"{path} has the columns {', '.join(found)}; one must be called '{names[0]}' or '{names[1]}'")


def _bytes(value: Any, path: Path) -> bytes:
    data = value.get("bytes") if isinstance(value, dict) else value
    if not isinstance(data, bytes):
        raise MocaError(f"{path} has rows without the bytes of an image; save the set with its images embedded")
    return data


def _classes(file: Any) -> tuple[str, ...] | None:
    """The class names in the metadata that the hub stores with the columns, if any."""
    try:
        features = json.loads(file.schema_arrow.metadata[b"huggingface"])["info"]["features"]
        names = next(features[name]["names"] for name in _LABEL if name in features)
        return tuple(map(str, names))
    except (KeyError, TypeError, ValueError, StopIteration):
        return None
