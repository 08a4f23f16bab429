"""Which existing files moca may replace: those that it wrote itself, recognised by what they contain."""

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


PAGE = Kind("moca report", ".html", "<footer>Written by moca.")
LATEX = Kind("LaTeX file of moca report", ".tex", "% \\usepackage{booktabs}\n\\begin{table}")
PAPER = Kind("page of moca paper report", ".md", "Written by `moca paper report`")
RUNS = Kind("moca table of runs", ".csv", "method,seed,status,")
TIDY = Kind("moca table of numbers", ".csv", ",perturb_name,")
PARQUET = Kind("moca table of numbers", ".parquet", "perturb_name")
METHODS = Kind("moca table of methods", ".json", '"not_finished"')
COST = Kind("moca record of costs", ".json", '"images_per_second"')
CHOICE = Kind("moca record of a choice", ".json", '"tested_with_seeds"')
ONNX = Kind("model exported by moca", ".onnx", '{"moca": "')
PDF = Kind("figure drawn by moca", ".pdf", "/Creator (moca)")
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
    if content.strip() not in (b"", b"[]") and kind.mark.encode() not in content:
        raise MocaError(f"'{path}' is not a {kind.what}, so it is kept; remove it, or choose another name or folder")
    return path
