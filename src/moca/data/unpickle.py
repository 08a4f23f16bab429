"""Reading CIFAR's pickles without running anything in them.

A pickle may name any function to call. This reader knows the three names of a numpy array and no other, and even they
are replaced by stand-ins that only take bytes of a stated shape.
"""

import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np

from moca.errors import MocaError


class _Bytes:
    """An array of bytes, filled in by the pickle."""

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, fortran, data = state
        if not isinstance(dtype, _Type) or dtype.code not in ("u1", b"u1"):
            raise pickle.UnpicklingError("an array that is not of bytes")
        if not isinstance(data, bytes) or not all(isinstance(n, int) and n >= 0 for n in shape):
            raise pickle.UnpicklingError("an array that is not plain")
        if math.prod(shape) != len(data):
            raise pickle.UnpicklingError(f"an array of shape {tuple(shape)} with {len(data)} bytes")
        self.array = np.frombuffer(data, np.uint8).reshape(shape, order="F" if fortran else "C")


class _Type:
    """The type of an array."""

    def __init__(self, code: Any) -> None:
        self.code = code

    def __setstate__(self, state: Any) -> None:
        pass


class _Callable:
    """What stands for a name in the pickle: it can be called, and nothing else can be done with it."""

    __slots__ = ("make",)

    def __init__(self, make: Any) -> None:
        self.make = make

    def __call__(self, *arguments: Any) -> Any:
        return self.make(*arguments)

    def __setstate__(self, state: Any) -> None:
        raise pickle.UnpicklingError("an attempt to change a name")


_RECONSTRUCT = _Callable(lambda *_: _Bytes())
_ALLOWED = {
    ("numpy.core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy", "ndarray"): _Callable(_Bytes),
    ("numpy", "dtype"): _Callable(lambda code, *_: _Type(code)),
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which no CIFAR file does")
        return _ALLOWED[module, name]


def unpickle(path: Path) -> dict[str, Any]:
    """The dictionary in a CIFAR file; arrays of bytes as numpy arrays, text as str."""
    try:
        with path.open("rb") as file:
            raw = _Unpickler(file, encoding="bytes").load()
    except OSError as error:
        raise MocaError(f"cannot read {path} ({error.strerror}); check the file") from None
    except Exception as error:
        raise MocaError(f"{path} is not a CIFAR file ({error}); fetch it again") from None
    if not isinstance(raw, dict):
        raise MocaError(f"{path} is not a CIFAR file (no dictionary in it); fetch it again")
    return {_text(key): _plain(value) for key, value in raw.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, _Bytes):
        return getattr(value, "array", None)
    return [_text(v) if isinstance(v, bytes) else v for v in value] if isinstance(value, list) else value


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
