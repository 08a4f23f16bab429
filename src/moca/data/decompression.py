"""Limits on decompression, so that a small file cannot fill the disk."""

from pathlib import Path

from moca.errors import MocaError

_SMALL = 1 << 30
_RATIO = 100
"""Files may grow to this many times their size; images hardly compress, so real files stay far below."""


def most_bytes(path: Path) -> int:
    """The maximum decompressed size of a file."""
    return max(_SMALL, _RATIO * path.stat().st_size)


def refuse_growth(path: Path, claimed: int, most: int | None) -> None:
    """Raise before reading if a file claims to hold more than its limit, or than the limit of its archive."""
    if claimed > min(most_bytes(path), most or claimed):
        raise grows(path)


def grows(path: Path) -> MocaError:
    """The error for a file that exceeds its limit."""
    return refused(path, f"it grows to more than {_RATIO} times its size")


def refused(path: Path, why: str) -> MocaError:
    """The error for a file that will not be read."""
    return MocaError(f"{path} is refused: {why}; extract it yourself if you trust it, and pass the folder")
