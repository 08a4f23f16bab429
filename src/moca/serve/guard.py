"""Access control: only requests from this machine, or with the API key, and not too many."""

from __future__ import annotations

import asyncio
import hmac
import math
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from urllib.parse import urlsplit

from fastapi import HTTPException
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from moca.serve.limits import Limits, Rate

_OPEN = ("/", "/api/health", "/openapi.json")
"""Paths that reveal no more of the model than the number of its version, and need no key."""
_PATIENCE = 10.0
"""Seconds for receiving the rest of a refused request; slow senders take up connections."""
_LATER = "2"
"""Seconds for the Retry-After header when there is no room for uploads."""
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Guard:
    """ASGI middleware that refuses requests before they reach the application."""

    def __init__(self, app: ASGIApp, limits: Limits, key: str | None) -> None:
        self._app, self._limits, self._key = app, limits, key
        self._rate = Rate(limits.rate)
        self._waiting = 0
        """Bytes received with requests that are not answered yet."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request, or pass on the application's lifespan events."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            self._check(scope, Headers(scope=scope))
        except HTTPException as refused:
            await _drain(receive, self._limits.bytes)
            answer = JSONResponse({"detail": refused.detail}, refused.status_code, refused.headers)
            await answer(scope, receive, with_headers)
            return
        with self._counting(receive) as counting_receive:
            await self._app(scope, counting_receive, with_headers)

    def _check(self, scope: Scope, headers: Headers) -> None:
        wait = self._rate.wait((scope.get("client") or ("unknown",))[0])
        if wait:
            line = f"more than {self._limits.rate:g} requests a second came from you; wait a little"
            raise HTTPException(429, line, {"Retry-After": str(math.ceil(wait))})
        if self._key is None:
            _check_local(headers)
        elif scope["path"] not in _OPEN:
            _check_key(headers, self._key)
        if int(headers.get("content-length", "0")) > self._limits.bytes:
            raise HTTPException(413, self._too_large)

    @property
    def _too_large(self) -> str:
        return f"the request is larger than {self._limits.bytes / (1 << 20):g} MB; send fewer or smaller images"

    @contextmanager
    def _counting(self, receive: Receive) -> Iterator[Receive]:
        """`receive` with byte limits: one for this body, whose length may be unknown, and one for all requests that
        wait for an answer."""
        received = 0

        async def counting_receive() -> Message:
            nonlocal received
            message = await receive()
            size = len(message.get("body", b""))
            received, self._waiting = received + size, self._waiting + size
            if received > self._limits.bytes:
                refused = HTTPException(413, self._too_large)
            elif size and self._waiting > self._limits.waiting:
                refused = HTTPException(503, self._full, {"Retry-After": _LATER})
            else:
                return message
            received, self._waiting = 0, self._waiting - received  # the body is discarded
            if message.get("more_body", False):
                await _drain(receive, self._limits.bytes)
            raise refused

        try:
            yield counting_receive
        finally:
            self._waiting -= received

    @property
    def _full(self) -> str:
        room = f"{self._limits.waiting / (1 << 20):g} MB"
        return f"uploads that wait for an answer take up all of the {room} reserved for them; try again a little later"


async def _drain(receive: Receive, most: int) -> None:
    """Read the rest of a request, within limits, so that the client sees the response instead of a broken
    connection."""
    received = 0
    with suppress(TimeoutError):
        async with asyncio.timeout(_PATIENCE):
            while received <= most:
                message = await receive()
                received += len(message.get("body", b""))
                if not message.get("more_body", False):
                    return


def _check_key(headers: Headers, key: str) -> None:
    """Raise unless the request has the key, comparing in constant time."""
    kind, _, given = headers.get("authorization", "").partition(" ")
    if kind.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), key.encode()):
        line = "this service needs its key: send the header Authorization: Bearer KEY"
        raise HTTPException(401, line, {"WWW-Authenticate": "Bearer"})


def _check_local(headers: Headers) -> None:
    """Without a key, accept only requests from this machine, and from its browsers only those of our own page.

    A foreign page is recognised by its Origin header or, after DNS rebinding, by its name in the Host header.
    """
    host, origin = headers.get("host", ""), headers.get("origin")
    if not _is_loopback(host):
        line = f"this service answers to localhost only, not to '{host[:100]}'; others need an API key"
        raise HTTPException(403, line)
    if origin is not None and origin.partition("://")[2].lower() != host.lower():
        line = f"a page of '{origin[:100]}' may not use this service; its own page and programs may"
        raise HTTPException(403, line)


def _is_loopback(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or ip_address(name).is_loopback
    except ValueError:
        return False
