"""Paths given by the user: refused early if they cannot hold a data set, and made printable."""

from contextlib import suppress
from pathlib import Path

from moca.errors import MocaError


def refuse_unfit(path: Path) -> None:
    """Raise if a path cannot hold a data set, before anything is read."""
    if is_broken(path):
        raise MocaError(f"{path} is a link to something that does not exist; mend the link, or give the folder itself")
    if not exists(path):
        raise MocaError(f"{path} does not exist; check the path")
    if not path.is_dir() and not path.is_file():
        raise MocaError(f"{path} is a pipe, socket or device; give a folder of images, or a file")
    whole, home = path.resolve(), None
    with suppress(RuntimeError):  # a user without a home
        home = Path.home().resolve()
    if whole == Path(whole.anchor):
        raise MocaError(f"{path} is the whole disk; give the folder that holds the classes")
    if home and home.is_relative_to(whole):
        raise MocaError(f"{path} is or holds your home folder; give the folder that holds the classes")


def exists(path: Path) -> bool:
    """Whether a path exists and is accessible."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def is_broken(path: Path) -> bool:
    """Whether a path is a broken link."""
    try:
        return path.is_symlink() and not path.exists()
    except (OSError, ValueError):
        return False


def named(text: str) -> str:
    """The text that a user gave for a data set; refused if it is empty or not valid UTF-8."""
    if not text.strip():
        raise MocaError("the data set has no name; give one of moca data ls, or a folder of images ('.' is this one)")
    if text != readable(text):
        raise MocaError(f"'{readable(text)}' is not written in UTF-8; rename the folder")
    return text


def readable(text: str) -> str:
    """A file name as printable text: bytes that are not UTF-8 are escaped."""
    return text.encode("utf-8", "backslashreplace").decode()
