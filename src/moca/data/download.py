"""Download a published file: resumes, retries, and verifies the checksum."""

from __future__ import annotations

import hashlib
import http.client
import socket
import time
import urllib.error
import urllib.request
from pathlib import Path

from moca import __version__
from moca.data.catalogue import Download
from moca.data.progress import Watch
from moca.errors import MocaError

_PIECE = 1 << 18
_PASSING = (408, 425, 429, 500, 502, 503, 504)
"""HTTP status codes of failures that may be temporary."""


class Unreachable(MocaError):
    """Raised if the file could not be downloaded from its official URL."""


class _Failed(Exception):
    """One attempt failed; another may succeed."""


def fetch(
    item: Download, folder: Path, watch: Watch, *, attempts: int = 5, pause: float = 1.0, timeout: float = 30
) -> Path:
    """Download a file to a folder and verify it; a file that is already there is verified and used."""
    target, part = folder / item.file, folder / f"{item.file}.part"
    if target.is_file():
        if not matches(target, item.checksum):
            raise MocaError(
                f"{target} is not the published file (its {_algorithm(item)} differs); delete it and try again"
            )
        return target
    folder.mkdir(parents=True, exist_ok=True)
    reason = ""
    for attempt in range(attempts):
        if attempt:
            time.sleep(pause * 2 ** (attempt - 1))
        try:
            resumed = _continue(item, part, watch, timeout)
        except _Failed as failure:
            reason = str(failure)
            continue
        if matches(part, item.checksum):
            part.replace(target)
            return target
        part.unlink()
        reason = f"the file there is not the published one (its {_algorithm(item)} differs)"
        if not resumed:
            break
    raise Unreachable(_elsewhere(item, folder, reason))


def _elsewhere(item: Download, folder: Path, reason: str) -> str:
    return (
        f"cannot fetch {item.url} ({reason}); on a machine that can, fetch {item.file} "
        f"({item.size / 1e6:.1f} MB, {item.checksum}), put it in {folder} and run this again"
    )


def _continue(item: Download, part: Path, watch: Watch, timeout: float) -> bool:
    """Download what is still missing of `part`; return whether an earlier download was resumed."""
    have = part.stat().st_size if part.is_file() else 0
    if have > item.size:
        part.unlink()
        have = 0
    if have == item.size:
        return True
    request = urllib.request.Request(
        item.url, headers={"User-Agent": f"moca/{__version__}", "Accept-Encoding": "identity"}
    )
    if have:
        request.add_header("Range", f"bytes={have}-")
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            resumed = have > 0 and answer.status == 206 and _first_byte(answer.headers.get("Content-Range")) == have
            done = have if resumed else 0
            with part.open("ab" if resumed else "wb") as out:
                while piece := answer.read(_PIECE):
                    done += len(piece)
                    if done > item.size:
                        break
                    out.write(piece)
                    watch(item.file, done, item.size)
    except urllib.error.HTTPError as error:
        if error.code in _PASSING:
            raise _Failed(f"the server answers {error.code}") from None
        if error.code == 416:
            part.unlink()
            raise _Failed("the server has another file") from None
        raise Unreachable(_gone(item, error.code)) from None
    except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
        if isinstance(getattr(error, "reason", None), socket.gaierror):
            raise Unreachable(_elsewhere(item, part.parent, "no connection to that host")) from None
        raise _Failed(str(getattr(error, "reason", "") or error) or type(error).__name__) from None
    if done > item.size:
        part.unlink()
        raise _Failed("the file there is longer than the published one")
    if done < item.size:
        raise _Failed(f"the connection ended after {done} of {item.size} bytes")
    return resumed


def _gone(item: Download, code: int) -> str:
    where = f"cannot fetch {item.url} (the server answers {code})"
    return f"{where}; find {item.file} elsewhere ({item.checksum}) and use source="


def _first_byte(content_range: str | None) -> int:
    """The first byte in a Content-Range header: 100 for 'bytes 100-199/200'; -1 if there is none."""
    start = (content_range or "").removeprefix("bytes ").partition("-")[0]
    return int(start) if start.isdigit() else -1


def _algorithm(item: Download) -> str:
    return item.checksum.partition(":")[0].upper()


def matches(path: Path, checksum: str) -> bool:
    """Whether a file has the checksum, which is written algorithm:digest."""
    algorithm, _, expected = checksum.partition(":")
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.new(algorithm, usedforsecurity=False)).hexdigest() == expected
