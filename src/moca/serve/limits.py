"""What one request, one client, and all together may ask for."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

_BURST = 5
"""Seconds' worth of requests that may come at once."""
_CLIENTS = 10_000
"""Clients that are remembered before those that have been quiet are forgotten."""


@dataclass(frozen=True)
class Limits:
    """The most of everything."""

    bytes: int = 64 << 20
    """Of a request."""
    images: int = 100
    """Of a request."""
    pixels: int = 1 << 25
    """Of an image: about 33 million."""
    rate: float = 20.0
    """Requests a second of a client, over some seconds; 0 for any number."""
    waiting: int = 256 << 20
    """Bytes of all requests together that have not been answered."""


class Rate:
    """A bucket for each client, which fills at the rate allowed; a request takes one out."""

    def __init__(self, rate: float, now: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._most, self._now = rate, max(1.0, _BURST * rate), now
        self._buckets: dict[str, tuple[float, float]] = {}
        """How much was in it, and when."""

    def wait(self, client: str) -> float:
        """Seconds until this client may ask; at 0 it may now, and has asked."""
        if not self._rate:
            return 0.0
        now = self._now()
        left, then = self._buckets.get(client, (self._most, now))
        left = min(self._most, left + (now - then) * self._rate)
        if left < 1:
            return (1 - left) / self._rate
        if len(self._buckets) >= _CLIENTS:
            self._forget(now)
        self._buckets[client] = left - 1, now
        return 0.0

    def _forget(self, now: float) -> None:
        """Those whose bucket is full again, which is as if they had never come."""
        full = self._most / self._rate
        self._buckets = {client: (left, then) for client, (left, then) in self._buckets.items() if now - then < full}
