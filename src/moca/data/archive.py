"""Extracting archives that may be hostile: plain files and folders only, nothing outside the target, no bombs."""

import bz2
import errno
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

from moca.data.decompression import grows, most_bytes, refused
from moca.errors import MocaError

_MEMBERS = 2_000_000
"""Headers of every kind: folders and attributes cost as much to read as files."""
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
    limit = most_bytes(path)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        for name, content in _members(path, limit):
            limit -= _write(content, _inside(folder, name, path), limit, path)
    except (
        tarfile.TarError,
        zipfile.BadZipFile,
        EOFError,
        zlib.error,
        lzma.LZMAError,
        ValueError,
        OverflowError,
    ) as error:
        raise MocaError(f"{path} cannot be extracted ({error}); it may be cut short, fetch it again") from None
    except (NotImplementedError, RuntimeError) as error:  # a way of packing that Python does not know
        raise MocaError(
            f"{path} cannot be extracted here ({error}); extract it yourself, and pass the folder"
        ) from None
    except OSError as error:
        if error.errno in (errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ):
            raise refused(path, f"'{_shown(Path(error.filename or '').name)}' cannot be a file's name here") from None
        if error.errno is not None:
            raise
        # gzip says a wrong checksum with an OSError that has no number
        raise MocaError(f"{path} cannot be extracted ({error}); fetch it again") from None


def _shown(name: str) -> str:
    """A name for a message: short, and nothing in it that a terminal would obey."""
    plain = "".join(c if c.isprintable() else "?" for c in name)
    return plain if len(plain) <= 60 else f"{plain[:57]}..."


def _members(path: Path, limit: int) -> Iterator[Member]:
    """The files in an archive, one after the other; anything but files and folders is refused."""
    return _zip_members(path) if zipfile.is_zipfile(path) else _tar_members(path, limit)


def _zip_members(path: Path) -> Iterator[Member]:
    with zipfile.ZipFile(path) as archive:
        _counted(path, len(archive.infolist()))
        for entry in archive.infolist():
            kind = stat.S_IFMT(entry.external_attr >> 16)
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise _not_plain(path, entry.filename)
            if entry.flag_bits & 1:
                raise MocaError(f"{path} is encrypted; extract it with its password, and pass the folder")
            if not entry.is_dir():
                with archive.open(entry) as content:
                    yield entry.filename, content


def _tar_members(path: Path, limit: int) -> Iterator[Member]:
    with _decompressed(path) as raw:
        stream = _Bounded(raw, path, limit)
        with tarfile.open(fileobj=cast(IO[bytes], stream), mode="r:") as tar:
            count = 0
            while member := tar.next():
                count += 1
                _counted(path, count)
                if not member.isdir():
                    file = tar.extractfile(member) if member.isreg() else None
                    if file is None:
                        raise _not_plain(path, member.name)
                    stream.room = None
                    with closing(file):
                        yield member.name, file
                stream.room = _PIECE
                cast(Any, tar).members.clear()
                tar.pax_headers = {}
            stream.room = None
            _finish(stream, tar.offset)


def _counted(path: Path, count: int) -> None:
    if count > _MEMBERS:
        raise refused(path, f"it has more than {_MEMBERS:,} files and folders")


def _not_plain(path: Path, name: str) -> MocaError:
    return MocaError(
        f"{path} is refused: '{_shown(name)}' is a link or device; pack the files themselves (tar -h), "
        "or extract it yourself if you trust it, and pass the folder"
    )


def _decompressed(path: Path) -> IO[bytes]:
    """The bytes of a tar file; unlike tarfile's own streams, these complain when they end too early."""
    with path.open("rb") as file:
        magic = file.read(6)
    if magic.startswith(b"\x1f\x8b"):
        return cast(IO[bytes], gzip.open(path))
    if magic.startswith(b"BZh"):
        return cast(IO[bytes], bz2.open(path))
    return cast(IO[bytes], lzma.open(path)) if magic == b"\xfd7zXZ\0" else path.open("rb")


def _finish(stream: "_Bounded", end: int) -> None:
    """A whole archive goes on after its last file: with zeros, and if it is compressed with a checksum."""
    if stream.tell() <= end:
        stream.seek(end)
        if stream.read(1) == b"":
            raise EOFError("it has no end")
    while stream.read(_PIECE):
        pass


class _Bounded:
    """A stream read in small pieces and not beyond a limit: a tar file may claim names and holes of any size."""

    def __init__(self, stream: IO[bytes], path: Path, limit: int) -> None:
        self.stream, self.path, self.limit = stream, path, limit
        self.tell = stream.tell
        self.room: int | None = _PIECE
        """Bytes that the headers of one member may still take; None while a file's content is read."""

    def seek(self, position: int) -> int:
        """Go forward, which decompresses what lies between."""
        if position > self.limit:
            raise grows(self.path)
        return self.stream.seek(position)

    def read(self, count: int) -> bytes:
        """At most a megabyte at a time."""
        if not 0 <= count <= (_PIECE if self.room is None else self.room):
            raise refused(self.path, "a name in it is too long")
        data = self.stream.read(count)
        if self.room is not None:
            self.room -= len(data)
        if self.tell() > self.limit:
            raise grows(self.path)
        return data


def _inside(folder: Path, name: str, path: Path) -> Path:
    """Where a member goes, if that is inside the folder on every system."""
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts or "\\" in name or ":" in name or "\0" in name:
        raise refused(path, f"'{_shown(name)}' leads out of its folder")
    return folder.joinpath(*parts)


def _write(content: IO[bytes], target: Path, limit: int, path: Path) -> int:
    written = 0
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as out:
            while piece := content.read(_PIECE):
                written += len(piece)
                if written > limit:
                    raise grows(path)
                out.write(piece)
    except (FileExistsError, NotADirectoryError):
        raise refused(path, f"it has '{_shown(target.name)}' twice") from None
    return written
