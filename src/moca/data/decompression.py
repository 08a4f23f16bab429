"""How much a compressed file may grow: a small one must not fill the disk."""

from pathlib import Path

from moca.errors import MocaError

_SMALL = 1 << 30
_RATIO = 100
"""Files may grow to this many times their size; images hardly compress, so real ones stay far below."""


def most_bytes(path: Path) -> int:
    """What a file may hold once it is decompressed."""
    return max(_SMALL, _RATIO * path.stat().st_size)


def refuse_growth(path: Path, claimed: int, most: int | None = None) -> None:
    """Stop before reading if a file says that it holds more than it may, or than the archive it came in may."""
    if claimed > min(most_bytes(path), most or claimed):
        raise grows(path)


def grows(path: Path) -> MocaError:
    """The refusal of a file that holds more."""
    return refused(path, f"it grows to more than {_RATIO} times its size")


def refused(path: Path, why: str) -> MocaError:
    """A file that is not touched any further."""
    return MocaError(f"{path} is refused: {why}; extract it yourself if you trust it, and pass the folder")
