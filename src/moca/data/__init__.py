"""Getting images in."""

from collections.abc import Callable

from moca.data.dataset import Dataset, Protocol, Split
from moca.data.digits import load_digits
from moca.data.transform import Transform
from moca.errors import MocaError, nearest

__all__ = ["Dataset", "Protocol", "Split", "Transform", "load"]

_EMBEDDED: dict[str, Callable[[], Dataset]] = {"digits": load_digits}


def load(name: str) -> Dataset:
    """A data set by name."""
    if name not in _EMBEDDED:
        raise MocaError(f"unknown data set '{name}'; {nearest(name, _EMBEDDED)}")
    return _EMBEDDED[name]()
