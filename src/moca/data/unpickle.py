"""Read CIFAR's pickles without running any code in them.

A pickle can name any function and have it called. Here the names that make up a numpy array stand for two classes of
our own, since numpy would take a crafted state for addresses in memory; all other names are refused.
"""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np

from moca.data.source import MOST_BYTES
from moca.errors import MocaError


class _Type:
    """Stands for `numpy.dtype`; only its code matters, since all arrays are of bytes."""

    def __init__(self, code: Any = None, *_: Any) -> None:
        self.code = code

    def __setstate__(self, state: Any) -> None:
        pass


class _Array:
    """Stands for `numpy.ndarray`: an array of bytes, set by the pickle in the form that numpy writes."""

    array: np.ndarray[Any, np.dtype[np.uint8]] | None = None

    def __init__(self, *_: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, fortran, data = state
        if not isinstance(data, bytes) or not isinstance(dtype, _Type) or dtype.code != b"u1":
            raise pickle.UnpicklingError("an array that is not of bytes")
        self.array = np.frombuffer(data, np.uint8).reshape(shape, order="F" if fortran else "C")


_NAMES = {
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Type,
}


class _Reader(pickle.Unpickler):
    """Python's unpickler, restricted to the names of a numpy array."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _NAMES:
            raise pickle.UnpicklingError(f"it names {f'{module}.{name}'[:60]}, which no CIFAR file does")
        return _NAMES[module, name]


def unpickle(path: Path) -> dict[str, Any]:
    """The dictionary in a CIFAR file, with arrays as numpy arrays of bytes and text as str."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise MocaError(f"{path} is not a CIFAR file (it is too large); fetch it again")
        data = path.read_bytes()
    except OSError as error:
        raise MocaError(f"cannot read {path} ({error.strerror}); check the file") from None
    try:
        raw = _Reader(io.BytesIO(data), fix_imports=False, encoding="bytes").load()
        if not isinstance(raw, dict) or not all(isinstance(key, bytes) for key in raw):
            raise pickle.UnpicklingError("no dictionary of named values in it")
    except Exception as error:  # a damaged pickle may fail in any way
        reason = str(error) or type(error).__name__
        raise MocaError(f"{path} is not a CIFAR file ({reason}); fetch it again") from None
    return {_text(key): _plain(value) for key, value in raw.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, _Array):
        return value.array
    return [_text(v) for v in value] if isinstance(value, list) else value


def _text(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
