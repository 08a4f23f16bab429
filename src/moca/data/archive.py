"""Extract untrusted archives: nothing outside the target, no devices, no decompression bombs."""

import errno
import lzma
import tarfile
import zipfile
import zlib
from pathlib import Path

from moca.data.decompression import grows, most_bytes, refuse_growth, refused
from moca.errors import MocaError, first_line

_PIECE = 1 << 20
_UNFIT = (None, errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ, errno.EEXIST, errno.ENOTDIR, errno.EISDIR)
"""Codes of OSErrors that are due to the archive: gzip's of a wrong checksum has none, the others are of names."""


def is_archive(path: Path) -> bool:
    """Whether a file is a tar (plain or compressed) or zip archive, by its content."""
    try:
        return path.is_file() and (zipfile.is_zipfile(path) or tarfile.is_tarfile(path))
    except (OSError, EOFError, zlib.error, lzma.LZMAError):
        return False


def extract(path: Path, folder: Path) -> None:
    """Extract everything in an archive into a folder, which must be empty."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        if zipfile.is_zipfile(path):
            _extract_zip(path, folder)
        else:
            _extract_tar(path, folder)
    except tarfile.FilterError as error:
        raise refused(path, str(error)) from None
    except MocaError:
        raise
    except Exception as error:  # a damaged archive may fail in any way
        if isinstance(error, OSError) and error.errno not in _UNFIT:
            raise
        why = getattr(error, "strerror", None) or first_line(error) or type(error).__name__
        raise MocaError(
            f"{path} cannot be extracted ({why}); fetch it again, or extract it yourself and pass the folder"
        ) from None


def _extract_zip(path: Path, folder: Path) -> None:
    """Python makes plain files of links, and keeps all inside the folder."""
    with zipfile.ZipFile(path) as archive:
        refuse_growth(path, sum(entry.file_size for entry in archive.infolist()), None)
        archive.extractall(folder)


def _extract_tar(path: Path, folder: Path) -> None:
    room = most_bytes(path)

    def checked(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo:
        nonlocal room
        room -= member.size
        if room < 0:
            raise grows(path)
        return tarfile.data_filter(member, folder)

    with tarfile.open(path) as archive:
        archive.extractall(folder, filter=checked)
        _refuse_truncated(archive)


def _refuse_truncated(archive: tarfile.TarFile) -> None:
    """Raise if the archive is cut short, which Python may take for its end: a complete one goes on with a block of
    zeros and, if compressed, a checksum."""
    rest = archive.fileobj
    assert rest is not None
    rest.seek(archive.offset)
    if rest.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
        raise EOFError("it has no end")
    while rest.read(_PIECE):
        pass
