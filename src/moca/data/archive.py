"""Extract untrusted archives: plain files and folders only, nothing outside the target, no decompression bombs."""

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
"""Maximum number of members of any kind: folders and attributes cost as much to read as files."""
_PIECE = 1 << 20
_DAMAGED = (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError, ValueError, OverflowError)
Member = tuple[str, IO[bytes]]


def is_archive(path: Path) -> bool:
    """Whether a file is a tar (plain or compressed) or zip archive, by its content."""
    return path.is_file() and (zipfile.is_zipfile(path) or _is_tar(path))


def _is_tar(path: Path) -> bool:
    """Whether the first block is a tar header; `tarfile.is_tarfile` would also read a name of any length."""
    try:
        with _decompressed(path) as stream:
            tarfile.TarInfo.frombuf(stream.read(tarfile.BLOCKSIZE), "utf-8", "surrogateescape")
    except (tarfile.TarError, EOFError, OSError, zlib.error, lzma.LZMAError):
        return False
    return True


def extract(path: Path, folder: Path) -> None:
    """Extract everything in an archive into a folder, which must be empty."""
    limit = most_bytes(path)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        members = _zip_members(path) if zipfile.is_zipfile(path) else _tar_members(path, limit)
        for name, content in members:
            limit -= _write(content, _inside(folder, name, path), limit, path)
    except _DAMAGED as error:
        raise MocaError(f"{path} cannot be extracted ({error}); it may be cut short, fetch it again") from None
    except (NotImplementedError, RuntimeError) as error:  # a compression method that Python does not support
        raise MocaError(
            f"{path} cannot be extracted here ({error}); extract it yourself, and pass the folder"
        ) from None
    except OSError as error:
        if error.errno in (errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ):
            raise refused(path, f"'{_shown(Path(error.filename or '').name)}' cannot be a file's name here") from None
        if error.errno is not None:
            raise
        # gzip reports a wrong checksum as an OSError without errno
        raise MocaError(f"{path} cannot be extracted ({error}); fetch it again") from None


def _shown(name: str) -> str:
    """A name for a message: shortened, and without control characters."""
    plain = "".join(c if c.isprintable() else "?" for c in name)
    return plain if len(plain) <= 60 else f"{plain[:57]}..."


def _zip_members(path: Path) -> Iterator[Member]:
    """Yield the files in a zip; refuse anything but files and folders, as `_tar_members` does."""
    with zipfile.ZipFile(path) as archive:
        _check_count(path, len(archive.infolist()))
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
                _check_count(path, count)
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


def _check_count(path: Path, count: int) -> None:
    if count > _MEMBERS:
        raise refused(path, f"it has more than {_MEMBERS:,} files and folders")


def _not_plain(path: Path, name: str) -> MocaError:
    return MocaError(
        f"{path} is refused: '{_shown(name)}' is a link or device; pack the files themselves (tar -h), "
        "or extract it yourself if you trust it, and pass the folder"
    )


def _decompressed(path: Path) -> IO[bytes]:
    """A stream of the tar's bytes; unlike tarfile's own streams, it raises if the file is truncated."""
    with path.open("rb") as file:
        magic = file.read(6)
    if magic.startswith(b"\x1f\x8b"):
        return cast(IO[bytes], gzip.open(path))
    if magic.startswith(b"BZh"):
        return cast(IO[bytes], bz2.open(path))
    return cast(IO[bytes], lzma.open(path)) if magic == b"\xfd7zXZ\0" else path.open("rb")


def _finish(stream: "_Bounded", end: int) -> None:
    """Read to the end and raise if the archive is truncated: a complete one ends with zero blocks and, if compressed, a
    checksum."""
    if stream.tell() <= end:
        stream.seek(end)
        if stream.read(1) == b"":
            raise EOFError("it has no end")
    while stream.read(_PIECE):
        pass


class _Bounded:
    """A stream that limits each read and the total size, because a tar file may claim names and holes of any size."""

    def __init__(self, stream: IO[bytes], path: Path, limit: int) -> None:
        self.stream, self.path, self.limit = stream, path, limit
        self.tell = stream.tell
        self.room: int | None = _PIECE
        """Bytes that the headers of one member may still use; None while a file's content is read."""

    def seek(self, position: int) -> int:
        """Seek forward, which decompresses everything in between."""
        if position > self.limit:
            raise grows(self.path)
        return self.stream.seek(position)

    def read(self, count: int) -> bytes:
        """Read at most a megabyte at a time."""
        if not 0 <= count <= (_PIECE if self.room is None else self.room):
            raise refused(self.path, "a name in it is too long")
        data = self.stream.read(count)
        if self.room is not None:
            self.room -= len(data)
        if self.tell() > self.limit:
            raise grows(self.path)
        return data


def _inside(folder: Path, name: str, path: Path) -> Path:
    """The target path of a member; refused unless it is inside the folder on every operating system."""
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
