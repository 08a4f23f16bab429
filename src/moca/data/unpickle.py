"""Reading CIFAR's pickles without running anything in them.

A pickle is a program for a small machine, and Python's own machine can be made to call any function, or to take all
memory and time. This one knows the few instructions that CIFAR's files use and the three names of a numpy array, which
stand for bytes of a stated shape; it calls nothing.
"""

from __future__ import annotations

import math
import pickletools
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from moca.data.source import MOST_BYTES
from moca.errors import MocaError

_STEPS = 2_000_000
"""CIFAR-100's training file takes a fifth of this."""
_RANK = 4
_MARK = object()


class _Refused(Exception):
    """Something that no CIFAR file holds."""


class _Bytes:
    """An array of bytes, filled in by the pickle."""

    array: np.ndarray[Any, np.dtype[np.uint8]] | None = None

    def fill(self, state: Any) -> None:
        """Take shape and bytes, as numpy writes them."""
        if not isinstance(state, tuple) or len(state) != 5:
            raise _Refused("an array that is not plain")
        _, shape, dtype, fortran, data = state
        if not isinstance(dtype, _Type) or dtype.code != b"u1":
            raise _Refused("an array that is not of bytes")
        plain = isinstance(data, bytes) and isinstance(shape, tuple) and len(shape) <= _RANK
        if not plain or not all(isinstance(n, int) and n >= 0 for n in shape):
            raise _Refused("an array that is not plain")
        if math.prod(shape) != len(data):
            raise _Refused(f"an array of shape {shape} with {len(data)} bytes")
        self.array = np.frombuffer(data, np.uint8).reshape(shape, order="F" if fortran is True else "C")


class _Type:
    """The type of an array."""

    def __init__(self, code: Any = None) -> None:
        self.code = code

    def fill(self, state: Any) -> None:
        """What else numpy says about a type does not matter for bytes."""


_NAMES: dict[bytes, Callable[..., _Bytes | _Type] | None] = {
    b"numpy.core.multiarray\n_reconstruct\n": lambda *_: _Bytes(),
    b"numpy._core.multiarray\n_reconstruct\n": lambda *_: _Bytes(),
    b"numpy\ndtype\n": lambda code=None, *_: _Type(code),
    b"numpy\nndarray\n": None,
}


class _Name:
    """One of the names; those that make something are called by REDUCE only."""

    def __init__(self, make: Callable[..., _Bytes | _Type] | None) -> None:
        self.make = make


class _Machine:
    """Carries out the instructions of one file."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def run(self) -> Any:
        """What the file holds."""
        for _ in range(_STEPS):
            code = self.take(1)
            if code == b".":
                return self.pop()
            if code not in _STEP:
                called = {op.code: op.name for op in pickletools.opcodes}.get(code.decode("latin-1"), repr(code))
                raise _Refused(f"it uses {called}, which no CIFAR file does")
            _STEP[code](self)
        raise _Refused(f"it has more than {_STEPS:,} instructions")

    def take(self, count: int) -> bytes:
        """The next bytes of the file."""
        piece = self.data[self.at : self.at + count]
        if count < 0 or len(piece) < count:
            raise _Refused("it ends too early")
        self.at += count
        return piece

    def number(self, form: str) -> int:
        """The next number of the file."""
        return int(struct.unpack(form, self.take(struct.calcsize(form)))[0])

    def pop(self) -> Any:
        """The uppermost value."""
        if not self.stack or self.stack[-1] is _MARK:
            raise _Refused("a value is missing")
        return self.stack.pop()

    def popped(self, count: int) -> tuple[Any, ...]:
        """The uppermost values, lowest first."""
        return tuple(self.pop() for _ in range(count))[::-1]

    def marked(self) -> list[Any]:
        """Everything above the last mark."""
        values = []
        while self.stack and self.stack[-1] is not _MARK:
            values.append(self.stack.pop())
        if not self.stack:
            raise _Refused("a mark is missing")
        self.stack.pop()
        return values[::-1]

    def push(self, value: Any) -> None:
        """Put a value on top."""
        self.stack.append(value)

    def remember(self, index: int) -> None:
        """Keep the uppermost value under a number."""
        self.push(value := self.pop())
        self.memo[index] = value

    def recall(self, index: int) -> None:
        """Put a remembered value on top."""
        if index not in self.memo:
            raise _Refused("a value is missing")
        self.push(self.memo[index])

    def append(self, values: list[Any]) -> None:
        """Lengthen the list on top."""
        self.push(target := self.pop())
        if not isinstance(target, list):
            raise _Refused("no list to append to")
        target += values

    def set_items(self, values: list[Any]) -> None:
        """Fill the dictionary on top; its keys are strings, since others may take for ever to look up."""
        self.push(target := self.pop())
        if not isinstance(target, dict) or len(values) % 2 or not all(isinstance(k, bytes) for k in values[::2]):
            raise _Refused("a dictionary whose keys are not strings")
        target.update(zip(values[::2], values[1::2], strict=True))

    def name(self) -> None:
        """One of the names of a numpy array."""
        start = self.at
        end = self.data.find(b"\n", self.data.find(b"\n", start, start + 100) + 1, start + 200) + 1
        named = self.data[start:end]
        if named not in _NAMES:
            shown = ".".join(named.decode("ascii", "replace").split("\n")).strip(".")
            raise _Refused(f"it names {shown[:60] or 'something'}, which no CIFAR file does")
        self.at = end
        self.push(_Name(_NAMES[named]))

    def reduce(self) -> None:
        """An empty array or its type; the arguments say nothing but the type's code."""
        named, arguments = self.popped(2)
        if not isinstance(named, _Name) or named.make is None or not isinstance(arguments, tuple):
            raise _Refused("it calls what cannot be called")
        self.push(named.make(*arguments))

    def build(self) -> None:
        """Fill what was made."""
        made, state = self.popped(2)
        if not isinstance(made, _Bytes | _Type):
            raise _Refused("an attempt to change a name")
        made.fill(state)
        self.push(made)


_STEP: dict[bytes, Callable[[_Machine], None]] = {
    b"\x80": lambda m: None if m.number("B") <= 2 else _later(),
    b"(": lambda m: m.push(_MARK),
    b"}": lambda m: m.push({}),
    b"]": lambda m: m.push([]),
    b")": lambda m: m.push(()),
    b"t": lambda m: m.push(tuple(m.marked())),
    b"\x85": lambda m: m.push(m.popped(1)),
    b"\x86": lambda m: m.push(m.popped(2)),
    b"\x87": lambda m: m.push(m.popped(3)),
    b"N": lambda m: m.push(None),
    b"\x88": lambda m: m.push(True),
    b"\x89": lambda m: m.push(False),
    b"K": lambda m: m.push(m.number("B")),
    b"M": lambda m: m.push(m.number("<H")),
    b"J": lambda m: m.push(m.number("<i")),
    b"U": lambda m: m.push(m.take(m.number("B"))),
    b"T": lambda m: m.push(m.take(m.number("<i"))),
    b"q": lambda m: m.remember(m.number("B")),
    b"r": lambda m: m.remember(m.number("<I")),
    b"h": lambda m: m.recall(m.number("B")),
    b"j": lambda m: m.recall(m.number("<I")),
    b"a": lambda m: m.append([m.pop()]),
    b"e": lambda m: m.append(m.marked()),
    b"s": lambda m: m.set_items(list(m.popped(2))),
    b"u": lambda m: m.set_items(m.marked()),
    b"c": _Machine.name,
    b"R": _Machine.reduce,
    b"b": _Machine.build,
}


def _later() -> None:
    raise _Refused("it was written by a later Python than CIFAR's files were")


def unpickle(path: Path) -> dict[str, Any]:
    """The dictionary in a CIFAR file; arrays of bytes as numpy arrays, text as str."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise MocaError(f"{path} is not a CIFAR file (it is too large); fetch it again")
        raw = _Machine(path.read_bytes()).run()
    except OSError as error:
        raise MocaError(f"cannot read {path} ({error.strerror}); check the file") from None
    except _Refused as error:
        raise MocaError(f"{path} is not a CIFAR file ({error}); fetch it again") from None
    if not isinstance(raw, dict):
        raise MocaError(f"{path} is not a CIFAR file (no dictionary in it); fetch it again")
    return {_text(key): _plain(value) for key, value in raw.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, _Bytes):
        return value.array
    return [_text(v) if isinstance(v, bytes) else v for v in value] if isinstance(value, list) else value


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")
