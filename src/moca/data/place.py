"""A path that somebody gave: refused at once where it cannot hold a data set, and fit to print."""

from contextlib import suppress
from pathlib import Path

from moca.errors import MocaError


def refuse_unfit(path: Path) -> None:
    """Say what is wrong with a path before anything is read or walked."""
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
    """Whether there is something at a path, and one may know."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def is_broken(path: Path) -> bool:
    """Whether this is a link to nothing."""
    try:
        return path.is_symlink() and not path.exists()
    except (OSError, ValueError):
        return False


def named(text: str) -> str:
    """What a user wrote for a data set, unless that is nothing, or no text."""
    if not text.strip():
        raise MocaError("the data set has no name; give one of moca data ls, or a folder of images ('.' is this one)")
    if text != readable(text):
        raise MocaError(f"'{readable(text)}' is not written in UTF-8; rename the folder")
    return text


def readable(text: str) -> str:
    """A name from the disk as text that can be printed and stored: bytes that are not UTF-8 are spelt out."""
    return text.encode("utf-8", "backslashreplace").decode()
