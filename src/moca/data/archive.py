"""Extracting archives that may be hostile: plain files and folders only, nothing outside the target, no bombs."""

import bz2
import gzip
import lzma
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

from moca.errors import MocaError

_SMALL = 1 << 30
_RATIO = 100
"""Archives may grow to this many times their size; images hardly compress, so real ones stay far below."""
_MEMBERS = 2_000_000
_PIECE = 1 << 20
Member = tuple[str, IO[bytes]]


def is_archive(path: Path) -> bool:
    """A tar (plain or compressed) or zip file, by its content."""
    return path.is_file() and (zipfile.is_zipfile(path) or _is_tar(path))


def _is_tar(path: Path) -> bool:
    """Whether the first block is a header; tarfile's own test would also read a name of any length."""
    try:
        with _decompressed(path) as stream:
            tarfile.TarInfo.frombuf(stream.read(tarfile.BLOCKSIZE), "utf-8", "surrogateescape")
    except (tarfile.TarError, EOFError, OSError, zlib.error, lzma.LZMAError):
        return False
    return True


def extract(path: Path, folder: Path) -> None:
    """Everything in an archive, into a folder that must be empty."""
    limit = max(_SMALL, _RATIO * path.stat().st_size)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        for count, (name, content) in enumerate(_members(path)):
            if count >= _MEMBERS:
                raise _refused(path, f"it has more than {_MEMBERS:,} files")
            limit -= _write(content, _inside(folder, name, path), limit, path)
    except (
        tarfile.TarError,
        zipfile.BadZipFile,
        EOFError,
        zlib.error,
        lzma.LZMAError,
        NotImplementedError,
        RuntimeError,
    ) as error:
        raise MocaError(f"{path} cannot be extracted ({error}); it may be cut short, fetch it again") from None
    except OSError as error:
        if error.errno is not None:
            raise
        # gzip says a wrong checksum with an OSError that has no number
        raise MocaError(f"{path} cannot be extracted ({error}); fetch it again") from None


def _refused(path: Path, why: str) -> MocaError:
    return MocaError(f"{path} is refused: {why}; extract it yourself if you trust it, and pass the folder")


def _members(path: Path) -> Iterator[Member]:
    """The files in an archive, one after the other; anything but files and folders is refused."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            for entry in archive.infolist():
                kind = stat.S_IFMT(entry.external_attr >> 16)
                if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                    raise _refused(path, f"'{entry.filename}' is a link or device")
                if not entry.is_dir():
                    with archive.open(entry) as content:
                        yield entry.filename, content
    else:
        with (
            _decompressed(path) as stream,
            tarfile.open(fileobj=cast(IO[bytes], _Bounded(stream, path)), mode="r:") as tar,
        ):
            for member in tar:
                if member.isdir():
                    continue
                file = tar.extractfile(member) if member.isreg() else None
                if file is None:
                    raise _refused(path, f"'{member.name}' is a link or device")
                with closing(file):
                    yield member.name, file
                cast(Any, tar).members.clear()
            _finish(stream, tar.offset)


def _decompressed(path: Path) -> IO[bytes]:
    """The bytes of a tar file; unlike tarfile's own streams, these complain when they end too early."""
    with path.open("rb") as file:
        magic = file.read(6)
    if magic.startswith(b"\x1f\x8b"):
        return cast(IO[bytes], gzip.open(path))
    if magic.startswith(b"BZh"):
        return cast(IO[bytes], bz2.open(path))
    return cast(IO[bytes], lzma.open(path)) if magic == b"\xfd7zXZ\0" else path.open("rb")


def _finish(stream: IO[bytes], end: int) -> None:
    """A whole archive goes on after its last file: with zeros, and if it is compressed with a checksum."""
    if stream.tell() <= end:
        stream.seek(end)
        if stream.read(1) == b"":
            raise EOFError("it has no end")
    while stream.read(_PIECE):
        pass


class _Bounded:
    """A stream that is read in small pieces only: the names in a tar file may claim to be gigabytes long."""

    def __init__(self, stream: IO[bytes], path: Path) -> None:
        self.stream, self.path = stream, path
        self.seek, self.tell = stream.seek, stream.tell

    def read(self, count: int) -> bytes:
        """At most a megabyte at a time."""
        if not 0 <= count <= _PIECE:
            raise _refused(self.path, "a name in it is too long")
        return self.stream.read(count)


def _inside(folder: Path, name: str, path: Path) -> Path:
    """Where a member goes, if that is inside the folder on every system."""
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts or "\\" in name or ":" in name or "\0" in name:
        raise _refused(path, f"'{name}' leads out of its folder")
    return folder.joinpath(*parts)


def _write(content: IO[bytes], target: Path, limit: int, path: Path) -> int:
    written = 0
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as out:
            while piece := content.read(_PIECE):
                written += len(piece)
                if written > limit:
                    raise _refused(path, f"it grows to more than {_RATIO} times its size")
                out.write(piece)
    except (FileExistsError, NotADirectoryError):
        raise _refused(path, f"it has '{target.name}' twice") from None
    return written
