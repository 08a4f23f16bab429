"""The result of an analysis, in a generic form that any tool can draw or print.

analysis.json of a run folder:

    {"format": 1,
     "sought":   names of all analyses that were attempted on the run's files, successful or not,
     "analyses": {NAME: {
         "title":    its title,
         "about":    a sentence that explains it,
         "source":   "recorded" while training, or "computed" from the run's files afterwards,
         "numbers":  {name with unit: a number or null},
         "plots":    {NAME: {
             "kind":    "lines", "bars", "matrix", "points" or "pictures",
             "x", "y":  {"name": with its unit, "values": numbers or words (lines, bars: for x; others: for both),
                         "log": true if the axis is logarithmic},
             "series":  {NAME: lines and bars: one value for each of x;
                               matrix: rows of values, one row for each of y;
                               points: {"x": [...], "y": [...], "class": [...], "old": [true, ...],
                                        "vectors": [[x, y], ...], "names": of the classes, if known};
                               pictures: a PNG in base64, one cell for each of x and y, all of one size}},
             "value":   what the entries of a matrix are, with their unit,
             "diagonal": true if the line y = x should be drawn,
             "trim":    true if zeros at both ends should be cut off,
             "mark":    a value of x to mark, or null}}}}}

Unknown values are null. Arrays that are too large for JSON are in analysis.npz, as NAME/ARRAY.
"""

from __future__ import annotations

import io
import json
import math
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from moca.engine.folder import RunFolder
from moca.errors import MocaError

if TYPE_CHECKING:
    from moca.engine.result import Result

FILE, ARRAYS = "analysis.json", "analysis.npz"
_FORMAT = 1
_DIGITS = 6

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Axis:
    """The name, values and scale of an axis."""

    name: str
    values: list[Any] = field(default_factory=list)
    log: bool = False


@dataclass(frozen=True)
class Plot:
    """One or several series to draw over the same axes."""

    kind: Literal["lines", "bars", "matrix", "points", "pictures"]
    x: Axis
    y: Axis
    series: dict[str, Any]
    value: str = ""
    """What the entries of a matrix are."""
    diagonal: bool = False
    """Whether to draw the line y = x."""
    mark: float | None = None
    """A value of x to mark."""
    trim: bool = False
    """Whether to cut off zeros at both ends."""

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> Plot:
        """Convert from JSON."""
        return cls(**dict(stored) | {"x": Axis(**stored["x"]), "y": Axis(**stored["y"])})


@dataclass(frozen=True)
class Analysis:
    """The result of one analysis: numbers, plots and arrays."""

    title: str
    about: str
    numbers: dict[str, float | None] = field(default_factory=dict)
    plots: dict[str, Plot] = field(default_factory=dict)
    source: Literal["recorded", "computed"] = "computed"
    arrays: Arrays = field(default_factory=dict)
    """Data that are too large for JSON."""

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> Analysis:
        """Convert from JSON."""
        return cls(**dict(stored) | {"plots": {name: Plot.read(plot) for name, plot in stored["plots"].items()}})


Analyses = dict[str, Analysis]


def write(folder: RunFolder, analyses: Analyses, sought: Iterable[str] = ()) -> None:
    """Write analysis.json, and analysis.npz if an analysis has arrays; `sought` are the attempted analyses."""
    if arrays := {f"{name}/{what}": array for name, a in analyses.items() for what, array in a.arrays.items()}:
        content = io.BytesIO()
        np.savez_compressed(content, **arrays)  # type: ignore[arg-type]
        folder.write_bytes(ARRAYS, content.getbuffer())
    kept = {name: {k: v for k, v in asdict(a).items() if k != "arrays"} for name, a in analyses.items()}
    document = {"format": _FORMAT, "sought": sorted(sought), "analyses": known(kept)}
    text = json.dumps(document, allow_nan=False)  # not indented, which would be one line per number
    folder.write_bytes(FILE, f"{text}\n".encode())


def read(folder: RunFolder, arrays: bool = True) -> Analyses:
    """Read analysis.json and, with `arrays`, analysis.npz; empty if there is none."""
    if not (folder.path / FILE).is_file():
        return {}
    try:
        stored = json.loads((folder.path / FILE).read_text())
        if stored["format"] != _FORMAT:
            raise ValueError(stored["format"])
        analyses = {name: Analysis.read(analysis) for name, analysis in stored["analyses"].items()}
        if arrays and (folder.path / ARRAYS).is_file():
            with (folder.path / ARRAYS).open("rb") as file, np.load(file) as stored_arrays:
                for key in stored_arrays.files:
                    name, _, what = key.partition("/")
                    if name in analyses:
                        analyses[name].arrays[what] = stored_arrays[key]
    except (KeyError, TypeError, ValueError, AttributeError, OSError, EOFError, BadZipFile, zlib.error) as error:
        raise MocaError(
            f"{folder.path / FILE}, or {ARRAYS} beside it, is damaged or of another version of moca ({error}); remove "
            "both, and what was not recorded while training can be computed again"
        ) from None
    return analyses


def analyses_of(result: Result) -> Analyses:
    """The analyses in a run's folder, without arrays; empty if the file is damaged."""
    try:
        return read(RunFolder(result.folder), arrays=False)
    except MocaError:
        return {}


def sought(folder: RunFolder) -> set[str]:
    """The analyses that were attempted when analysis.json was written; empty if an older version wrote it."""
    path = folder.path / FILE
    return set(json.loads(path.read_text()).get("sought", ())) if path.is_file() else set()


def known(value: Any) -> Any:
    """The value as JSON can hold it: floats with six significant digits, null if not finite."""
    if isinstance(value, dict):
        return {name: known(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [known(part) for part in value]
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
    return value


def numbered(count: int) -> list[int]:
    """1, 2, ..., as people count tasks and singular values."""
    return list(range(1, count + 1))


def listed(values: Iterable[float | None]) -> list[float | None]:
    """As a list, with None for NaN."""
    return [None if value is None or math.isnan(value) else float(value) for value in values]
