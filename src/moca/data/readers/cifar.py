"""The file names that CIFAR's two published formats share."""

from dataclasses import dataclass
from pathlib import Path

from moca.errors import MocaError

TEN = tuple(f"data_batch_{i}" for i in range(1, 6))


@dataclass(frozen=True)
class Files:
    """The files of CIFAR-10 or CIFAR-100 in a folder."""

    hundred: bool
    train: tuple[Path, ...]
    test: tuple[Path, ...]

    @property
    def title(self) -> str:
        """The name of the data set."""
        return "CIFAR-100" if self.hundred else "CIFAR-10"


def files(path: Path, suffix: str = "") -> Files:
    """The files of a CIFAR set in a folder; raises if any is missing."""
    hundred = (path / f"train{suffix}").is_file()
    names = (("train",), ("test",)) if hundred else (TEN, ("test_batch",))
    train, test = (tuple(path / f"{name}{suffix}" for name in group) for group in names)
    missing = [file.name for file in (*train, *test) if not file.is_file()]
    if missing:
        raise MocaError(f"{path} lacks {', '.join(missing)}; extract the whole archive")
    return Files(hundred, train, test)
