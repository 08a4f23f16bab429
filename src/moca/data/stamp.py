"""Under which name a folder of the user is stored, and whether a file in it has changed since."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from stat import S_ISDIR

from moca.errors import MocaError

_DEPTH = 5
"""How many levels of folders readers look into; also ends loops of links."""
_FILES = 2_000_000


def own_name(path: Path, size: int | None) -> str:
    """The name under which a folder is stored: its own name, and a digest of its path and image size."""
    plain = "".join(c if c.isascii() and c.isalnum() else "-" for c in path.name.lower()).strip("-") or "data"
    what = os.fsencode(path) + (b"" if size is None else b"\0%d" % size)
    return f"{plain[:40]}-{hashlib.blake2b(what, digest_size=4).hexdigest()}"


def stamp_of(path: Path, size: int | None) -> str:
    """A digest that changes with the name, size or modification time of any file under the path, and with the way in
    which images are read."""
    whole = hashlib.blake2b(f"size={size} transparent=white".encode(), digest_size=16)
    lines = sorted(islice(_listing(path), _FILES + 1))
    if len(lines) > _FILES:
        raise MocaError(f"{path} holds more than {_FILES:,} files; give the folder that holds the classes")
    for line in lines:
        whole.update(line)
    return whole.hexdigest()


def _listing(path: Path) -> Iterator[bytes]:
    if path.is_file():
        stat = path.stat()
        yield b"%d %d" % (stat.st_size, stat.st_mtime_ns)
        return
    folders = [(os.fspath(path), _DEPTH)]
    while folders:
        folder, depth = folders.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    about = _about(entry)
                    if S_ISDIR(about.st_mode):
                        folders += [(entry.path, depth - 1)] if depth else []
                    else:
                        yield b"%s %d %d" % (os.fsencode(entry.path), about.st_size, about.st_mtime_ns)
        except OSError as error:
            raise MocaError(f"cannot read {error.filename} ({error.strerror}); check its permissions") from None


def _about(entry: os.DirEntry[str]) -> os.stat_result:
    try:
        return entry.stat()
    except OSError:  # a broken link: reported when it is read, if it is
        return entry.stat(follow_symlinks=False)
