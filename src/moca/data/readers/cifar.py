"""What CIFAR's two published forms have in common: the names of their files."""

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
        """The data set."""
        return "CIFAR-100" if self.hundred else "CIFAR-10"


def files(path: Path, suffix: str = "") -> Files:
    """All of them; what is missing is named."""
    hundred = (path / f"train{suffix}").is_file()
    names = (("train",), ("test",)) if hundred else (TEN, ("test_batch",))
    train, test = (tuple(path / f"{name}{suffix}" for name in group) for group in names)
    lost = [file.name for file in (*train, *test) if not file.is_file()]
    if lost:
        raise MocaError(f"{path} lacks {', '.join(lost)}; extract the whole archive")
    return Files(hundred, train, test)
