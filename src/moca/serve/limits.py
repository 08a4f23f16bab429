"""Limits on one request, on one client, and on all requests together."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

_BURST = 5
"""A client may send this many seconds' worth of requests at once."""
_CLIENTS = 10_000
"""Number of clients to track before idle ones are dropped."""


@dataclass(frozen=True)
class Limits:
    """Upper limits of the service."""

    bytes: int = 64 << 20
    """Bytes per request."""
    images: int = 100
    """Images per request."""
    pixels: int = 1 << 25
    """Pixels per image: about 33 million."""
    rate: float = 20.0
    """Requests per second and client, averaged over some seconds; 0 for no limit."""
    waiting: int = 256 << 20
    """Bytes of all requests together that are not answered yet."""


class Rate:
    """A token-bucket rate limit per client: the bucket fills at the allowed rate, and each request takes one token."""

    def __init__(self, rate: float, now: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._most, self._now = rate, max(1.0, _BURST * rate), now
        self._buckets: dict[str, tuple[float, float]] = {}
        """Tokens left for each client, and when that was."""

    def wait(self, client: str) -> float:
        """Seconds until this client may send a request; 0 means now, and takes a token."""
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
        """Drop clients whose bucket is full again, which are like new ones."""
        full = self._most / self._rate
        self._buckets = {client: (left, then) for client, (left, then) in self._buckets.items() if now - then < full}
