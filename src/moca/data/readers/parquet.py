"""Parquet files with an image and a label column, as on the Hugging Face hub (extra: parquet)."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from moca.data.decoders import CHUNK, encoded_part
from moca.data.source import Options, Part, Source, as_labels, first_alone, together
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
    test = _part(tests[0], options) if tests else None
    notes = first_alone([group[0] for group in tests])
    return Source("parquet", _part(train, options), test, _classes(_opened(train[0])), notes)


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


def _opened(path: Path) -> Any:
    try:
        import pyarrow.parquet as pq
    except ImportError:
        raise MocaError("parquet files need an extra; install it with: pip install 'moca-cl[parquet]'") from None
    try:
        return pq.ParquetFile(path)
    except Exception as error:
        raise MocaError(f"{path} is not a readable parquet file ({_why(error)}); fetch it again") from None


def _part(files: Sequence[Path], options: Options) -> Part:
    opened = [_opened(file) for file in files]
    image, label = (_column(opened[0], names, files[0]) for names in (_IMAGE, _LABEL))

    def chunks() -> Iterator[list[bytes]]:
        for path, file in zip(files, opened, strict=True):
            try:
                for batch in file.iter_batches(batch_size=CHUNK, columns=[image]):
                    yield [_bytes(value, path) for value in batch.column(0).to_pylist()]
            except MocaError:
                raise
            except Exception as error:
                raise MocaError(f"{path} cannot be read ({_why(error)}); fetch it again") from None

    labels = np.concatenate([file.read(columns=[label]).column(0).to_numpy() for file in opened])
    where = together(files)
    return encoded_part(chunks, as_labels(labels, where), lambda row: f"image {row} of {where}", options)


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


def _why(error: Exception) -> str:
    return first_line(error) or type(error).__name__
