"""CIFAR-10 and CIFAR-100 as published for C: records of label bytes and a flat image."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from moca.data.source import Options, Part, Pixels, Source, array_part
from moca.errors import MocaError

_TEN = tuple(f"data_batch_{i}.bin" for i in range(1, 6))
_PIXELS = 3 * 32 * 32


def recognise(path: Path) -> bool:
    """The files data_batch_1.bin to 5 and test_batch.bin, or train.bin and test.bin."""
    return path.is_dir() and any((path / name).is_file() for name in (*_TEN, "test_batch.bin", "train.bin"))


def read(path: Path, options: Options) -> Source:
    """One label byte a record in CIFAR-10, the coarse and the fine one in CIFAR-100, of which the fine is taken."""
    hundred = (path / "train.bin").is_file()
    train, test = (("train.bin",), ("test.bin",)) if hundred else (_TEN, ("test_batch.bin",))
    lost = [name for name in (*train, *test) if not (path / name).is_file()]
    if lost:
        raise MocaError(f"{path} lacks {', '.join(lost)}; extract the whole archive")
    about = path / ("fine_label_names.txt" if hundred else "batches.meta.txt")
    names = tuple(about.read_text("utf-8", "replace").split()) if about.is_file() else None
    kind = "CIFAR-100 binary" if hundred else "CIFAR-10 binary"
    before = 2 if hundred else 1
    return Source(kind, _part(path, train, before), _part(path, test, before), names)


def _part(path: Path, files: Sequence[str], before: int) -> Part:
    def records() -> Iterator[Pixels]:
        for file in files:
            size = (path / file).stat().st_size
            if size % (before + _PIXELS):
                raise MocaError(f"{path / file} is cut short ({size} bytes); fetch it again")
            yield np.fromfile(path / file, np.uint8).reshape(-1, before + _PIXELS)

    def chunks() -> Iterator[Pixels]:
        for batch in records():
            yield batch[:, before:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)

    labels = np.concatenate([batch[:, before - 1].copy() for batch in records()])
    return array_part(chunks, labels, f"{path / files[0]}{' and on' if len(files) > 1 else ''}")
