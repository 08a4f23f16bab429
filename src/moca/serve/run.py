"""Run the service, from start to Ctrl-C."""

from __future__ import annotations

import secrets
import socket
import warnings
from collections.abc import Callable
from datetime import datetime
from ipaddress import ip_address
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from PIL import Image

from moca.errors import MocaError
from moca.serve.app import create_app
from moca.serve.current_version import InUse
from moca.serve.limits import Limits
from moca.serve.teaching import LessonRules, Teaching
from moca.wording import counted

_CONNECTIONS = 256
"""Concurrent requests above which uvicorn answers 503."""


def serve(
    path: Path,
    *,
    host: str,
    port: int,
    key: str | None,
    limits: Limits,
    rules: LessonRules,
    teach: bool,
    version: int | None,
    say: Callable[[str], None],
) -> None:
    """Serve a model until Ctrl-C. Without a key, only this machine can use it. A given version stays, and is not
    taught."""
    family, address = _resolve(host, port)
    _check_key(key, address)

    def log(line: str) -> None:
        say(f"{datetime.now():%Y-%m-%d %H:%M:%S} {line}")

    in_use = InUse(path, rules.device, version, log)
    Image.MAX_IMAGE_PIXELS = max(limits.pixels, Image.MAX_IMAGE_PIXELS or 0)  # images within our limit are not bombs
    warnings.simplefilter("error", Image.DecompressionBombWarning)  # larger ones are refused
    with bound(family, address, port) as listening:
        teaching = Teaching(in_use.folder, rules, in_use.look, log) if teach and version is None else None
        server = server_of(create_app(in_use, teaching, limits, key))
        classes, number = len(in_use.version.names), in_use.version.number
        which = "a finished run" if number is None else f"version {number}"
        shown = f"[{address}]" if ":" in address else address
        say(f"{path}, {which}, {counted(classes, 'class', 'classes')}: http://{shown}:{listening.getsockname()[1]}")
        say("Ctrl-C stops it.")
        try:
            server.run(sockets=[listening])
        except KeyboardInterrupt:  # comes after uvicorn has shut down
            pass
        finally:
            if teaching is not None:
                teaching.stop()
    say("Stopped.")


def server_of(app: FastAPI) -> uvicorn.Server:
    """A uvicorn server that does not identify itself and trusts no proxy headers."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            ws="none",
            limit_concurrency=_CONNECTIONS,
            timeout_graceful_shutdown=5,
        )
    )


def _resolve(host: str, port: int) -> tuple[socket.AddressFamily, str]:
    """The IP address of a host name; whether a key is needed depends on the address, not on how it was written."""
    if not 0 <= port <= 65535:
        raise MocaError(f"there is no port {port}; ports are 0 (any that is free) to 65535")
    try:
        family, _, _, _, resolved = socket.getaddrinfo(host or "::", port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise MocaError(f"'{host}' is not an address of this machine: {error.strerror}") from None
    return family, str(resolved[0])


def _check_key(key: str | None, address: str) -> None:
    if key is None and not ip_address(address).is_loopback:
        raise MocaError(
            f"at {address} others can reach the service, so it needs a key; for example this one, made just now: "
            f"MOCA_API_KEY={secrets.token_urlsafe(24)}"
        )
    if key is not None and (len(key) < 8 or not key.isascii() or not key.isprintable() or " " in key):
        raise MocaError("an API key is 8 or more plain characters without spaces")


def bound(family: socket.AddressFamily, address: str, port: int) -> socket.socket:
    """A socket that already listens, so that early clients wait until the server is ready."""
    # IPPROTO_TCP must be named: otherwise asyncio does not set TCP_NODELAY, and a response may wait 40 ms for an ACK.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((address, port))
        listening.listen(_CONNECTIONS)
    except OSError as error:
        listening.close()
        raise MocaError(
            f"port {port} of {address} cannot be used: {error.strerror}; choose another with --port"
        ) from None
    return listening
