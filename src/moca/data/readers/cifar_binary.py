"""CIFAR-10 and CIFAR-100 in the binary version: records of label bytes and a flat image."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from moca.data.readers.cifar import TEN, files
from moca.data.source import Options, Part, Pixels, Source, array_part, name_of
from moca.errors import MocaError

_PIXELS = 3 * 32 * 32


def recognise(path: Path) -> bool:
    """Whether a folder has data_batch_1.bin to 5 and test_batch.bin, or train.bin and test.bin."""
    return path.is_dir() and any((path / f"{name}.bin").is_file() for name in (*TEN, "test_batch", "train"))


def read(path: Path, options: Options) -> Source:
    """Read both splits. CIFAR-10 has one label byte per record, CIFAR-100 a coarse and a fine one, which is used."""
    found = files(path, ".bin")
    about = path / ("fine_label_names.txt" if found.hundred else "batches.meta.txt")
    names = tuple(about.read_text("utf-8", "replace").split()) if about.is_file() else None
    before = 2 if found.hundred else 1
    return Source(f"{found.title} binary", _part(found.train, before), _part(found.test, before), names)


def _part(paths: Sequence[Path], before: int) -> Part:
    def records() -> Iterator[Pixels]:
        for path in paths:
            size = path.stat().st_size
            if size % (before + _PIXELS):
                raise MocaError(f"{path} is cut short ({size} bytes); fetch it again")
            yield np.fromfile(path, np.uint8).reshape(-1, before + _PIXELS)

    def chunks() -> Iterator[Pixels]:
        for batch in records():
            yield batch[:, before:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)

    labels = np.concatenate([batch[:, before - 1].copy() for batch in records()])
    return array_part(chunks, labels, name_of(paths))
