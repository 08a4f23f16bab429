"""Files at a place of the user's choice replace only earlier ones that moca wrote, recognised by what they contain."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from moca.errors import MocaError


@dataclass(frozen=True)
class Kind:
    """A kind of file that moca writes to a place the user may choose."""

    what: str
    ending: str
    mark: str
    """What every file of this kind contains, and hardly any other file."""
    first: bool = False
    """Whether the file begins with the mark; a file of the user's may quote it further down."""


PAGE = Kind("moca report", ".html", "<footer>Written by moca.")
LATEX = Kind("LaTeX file of moca report", ".tex", "% \\usepackage{booktabs}", first=True)
PAPER = Kind("page of moca paper report", ".md", "# The paper's numbers and ours", first=True)
ONNX = Kind("model exported by moca", ".onnx", '{"moca": "')
PNG = Kind("picture drawn by moca", ".png", "Software\0moca")


def replaceable(path: Path, kind: Kind) -> Path:
    """The path itself, if it has the right ending and there is no file yet, an empty one, or an earlier one of ours.

    Otherwise a `MocaError` says what to do.
    """
    if path.suffix.lower() != kind.ending:
        raise MocaError(f"'{path}' must end in {kind.ending}: a {kind.what} is written there; choose another name")
    try:
        content = path.read_bytes() if path.is_file() else b""
    except OSError as error:
        raise MocaError(f"'{path}' exists and cannot be read: {error.strerror}; choose another name") from None
    mark = kind.mark.encode()
    if content.strip() and not (content.startswith(mark) if kind.first else mark in content):
        raise MocaError(f"'{path}' is not a {kind.what}, so it is kept; remove it, or choose another name")
    return path
