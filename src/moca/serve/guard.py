"""Who is let in: requests of this machine's own pages and programs, or those that bring the key; and not too many."""

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
"""What tells nothing of the model, and needs no key."""
_PATIENCE = 10.0
"""Seconds in which what is refused must have come: who sends slowly takes the place of others."""
_LATER = "2"
"""Seconds after which there may be room again."""
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Refused(Exception):
    """A status, and the line that says why."""

    def __init__(self, status: int, line: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(line)
        self.status, self.line, self.headers = status, line, headers


class Guard:
    """Around the application: what it refuses never gets there."""

    def __init__(self, app: ASGIApp, limits: Limits, key: str | None) -> None:
        self._app, self._limits, self._key = app, limits, key
        self._rate = Rate(limits.rate)
        self._waiting = 0
        """Bytes that came with requests which are not answered yet."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, or the beginning and end of the application."""
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
        except Refused as refused:
            await _drained(receive, self._limits.bytes)
            answer = JSONResponse({"detail": refused.line}, refused.status, refused.headers)
            await answer(scope, receive, with_headers)
            return
        with self._counted(receive) as counted:
            await self._app(scope, counted, with_headers)

    def _check(self, scope: Scope, headers: Headers) -> None:
        wait = self._rate.wait((scope.get("client") or ("unknown",))[0])
        if wait:
            line = f"more than {self._limits.rate:g} requests a second came from you; wait a little"
            raise Refused(429, line, {"Retry-After": str(math.ceil(wait))})
        if self._key is None:
            _check_local(headers)
        elif scope["path"] not in _OPEN:
            _check_key(headers, self._key)
        if int(headers.get("content-length", "0")) > self._limits.bytes:
            raise Refused(413, self._too_large)

    @property
    def _too_large(self) -> str:
        return f"the request is larger than {self._limits.bytes / (1 << 20):g} MB; send fewer or smaller images"

    @contextmanager
    def _counted(self, receive: Receive) -> Iterator[Receive]:
        """A body of unknown length may not be longer either, and all that wait for an answer share one room."""
        came = 0

        async def counted() -> Message:
            nonlocal came
            message = await receive()
            size = len(message.get("body", b""))
            came, self._waiting = came + size, self._waiting + size
            if came > self._limits.bytes:
                refused = HTTPException(413, self._too_large)
            elif size and self._waiting > self._limits.waiting:
                refused = HTTPException(503, self._full, {"Retry-After": _LATER})
            else:
                return message
            came, self._waiting = 0, self._waiting - came  # it is not kept
            if message.get("more_body", False):
                await _drained(receive, self._limits.bytes)
            raise refused

        try:
            yield counted
        finally:
            self._waiting -= came

    @property
    def _full(self) -> str:
        room = f"{self._limits.waiting / (1 << 20):g} MB"
        return (
            f"uploads that wait for an answer take all of the {room} that there are for them; come again a little later"
        )


async def _drained(receive: Receive, most: int) -> None:
    """Read what still comes, so that the client reads the answer instead of a broken connection; but not for ever."""
    came = 0
    with suppress(TimeoutError):
        async with asyncio.timeout(_PATIENCE):
            while came <= most:
                message = await receive()
                came += len(message.get("body", b""))
                if not message.get("more_body", False):
                    return


def _check_key(headers: Headers, key: str) -> None:
    """In a time that does not tell how much of it was right."""
    kind, _, given = headers.get("authorization", "").partition(" ")
    if kind.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), key.encode()):
        line = "this service needs its key: send the header Authorization: Bearer KEY"
        raise Refused(401, line, {"WWW-Authenticate": "Bearer"})


def _check_local(headers: Headers) -> None:
    """Without a key only this machine is let in, and of its browsers only our own page: a page from elsewhere names
    itself as the origin, or, where it made its own name lead here, asks for a host of that name."""
    host, origin = headers.get("host", ""), headers.get("origin")
    if not _is_loopback(host):
        raise Refused(403, f"this service answers to localhost only, not to '{host[:100]}'; others need an API key")
    if origin is not None and origin.partition("://")[2].lower() != host.lower():
        raise Refused(403, f"a page of '{origin[:100]}' may not use this service; its own page and programs may")


def _is_loopback(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or ip_address(name).is_loopback
    except ValueError:
        return False
