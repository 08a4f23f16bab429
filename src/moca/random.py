"""Random numbers as a pure function of (seed, purpose, count): the same on every device and in every execution mode.

Each purpose (data order, augmentation, replay, perturbation, ...) has its own sequence, so that changing one never
shifts another. The state is one counter on the device: nothing to register with a captured graph, and trivial to save.
The numbers are SplitMix64's: a bijective mix of an equidistributed 64-bit counter.
"""

import hashlib
import math
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock

import torch
from torch import Tensor

from moca import kernels
from moca.state import Stateful

_GOLDEN = 0x9E3779B97F4A7C15
_MIX = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
_one_at_a_time = RLock()


def derive(seed: int, purpose: str) -> int:
    """A 64-bit seed for one purpose of a run, unrelated to those of its other purposes."""
    return int.from_bytes(hashlib.blake2b(f"{seed}/{purpose}".encode(), digest_size=8).digest(), "little")


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Inside, torch's own generator on the CPU starts from this seed; afterwards it is as before.

    It belongs to the process, so threads wait for each other.
    """
    with _one_at_a_time, torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


def _signed(value: int) -> int:
    """The int64 with the same 64 bits as this unsigned number."""
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


def _bits(key: Tensor, count: Tensor, shape: tuple[int, ...]) -> Tensor:
    x = (torch.arange(1, math.prod(shape) + 1, device=key.device) + count) * _signed(_GOLDEN) + key
    for by, factor in _MIX:
        x = (x ^ _shift_right(x, by)) * _signed(factor)
    return (x ^ _shift_right(x, 31)).view(shape)


def _uniform(key: Tensor, count: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    digits = 52 if dtype == torch.float64 else 23
    return (_shift_right(_bits(key, count, shape), 64 - digits).to(dtype) + 0.5) * 2.0**-digits


def _numbers(key: Tensor, count: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Random bits for int64, uniform numbers for float dtypes."""
    if kernels.usable(key):
        from moca.kernels.random import numbers

        return numbers(key, count, shape, dtype)
    return _bits(key, count, shape) if dtype == torch.int64 else _uniform(key, count, shape, dtype)


def _shift_right(x: Tensor, by: int) -> Tensor:
    return (x >> by) & ((1 << (64 - by)) - 1)


class Random(Stateful):
    """The sequence of random numbers of one seed and one purpose."""

    remembers = ("count",)

    def __init__(self, seed: int, purpose: str, device: torch.device | str = "cpu") -> None:
        self.key = torch.tensor(_signed(derive(seed, purpose)), device=device)
        self.count = torch.zeros((), dtype=torch.int64, device=device)

    def bits(self, *shape: int) -> Tensor:
        """64 random bits per entry, as int64; advances the counter."""
        return self._next(shape, torch.int64)

    def uniform(self, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """Uniform on the open interval (0, 1): never exactly 0 or 1, so logarithms are finite."""
        return self._next(shape, dtype)

    def normal(self, *shape: int) -> Tensor:
        """Standard normal, by the Box-Muller transform."""
        n = math.prod(shape)
        u = self.uniform(2, (n + 1) // 2)
        radius, angle = (-2 * u[0].log()).sqrt(), 2 * math.pi * u[1]
        return torch.cat([radius * angle.cos(), radius * angle.sin()])[:n].view(shape)

    def _next(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        numbers = _numbers(self.key, self.count, shape, dtype)
        if torch.compiler.is_compiling():  # the backward pass may compute the numbers again, from the count as it was
            self.count = self.count + math.prod(shape)
        else:
            self.count += math.prod(shape)
        return numbers

    def below(self, bound: Tensor) -> Tensor:
        """Uniform integers in {0, ..., bound - 1}, one for each entry of `bound`."""
        return (self.uniform(*bound.shape, dtype=torch.float64) * bound).long()

    def permutation(self, n: int) -> Tensor:
        """A uniform permutation of 0..n-1."""
        return self.bits(n).argsort()

    def to(self, device: torch.device | str) -> None:
        """Move the counter to a device; the sequence continues unchanged."""
        self.key, self.count = self.key.to(device), self.count.to(device)
