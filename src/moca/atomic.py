"""File writes that leave nothing partial behind, and fail with one line that says what to do instead."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from moca.errors import MocaError


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A temporary file to write to, beside `path`; on success it replaces `path`.

    So readers never see a partial file, and with several writers the last one wins.
    """
    part = path.with_name(f".{path.name}.{uuid4().hex}.part")
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def writing(what: str, instead: str) -> Iterator[None]:
    """Turns the `OSError` of a failed write, as on a full disk or without permission, into a `MocaError`.

    It says that `what` cannot be written and why, and what to do `instead`.
    """
    try:
        yield
    except OSError as error:
        why = f"'{error.filename}' is a file" if isinstance(error, FileExistsError) else error.strerror or error
        raise MocaError(f"{what} cannot be written: {why}; {instead}") from None


def write(path: Path, text: str, instead: str) -> None:
    """Write a text to a file as a whole, in a folder that is created if necessary; an error says what to do
    `instead`."""
    with writing(f"'{path}'", instead):
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole(path) as part:
            part.write_text(text, encoding="utf-8", errors="replace")
