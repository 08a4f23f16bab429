"""What an analysis found, in a form that anything can draw or print without knowing what it is about.

analysis.json of a run folder:

    {"format": 1,
     "sought":   names of all that was looked for in the run's files, whether there was such a thing or not,
     "analyses": {NAME: {
         "title":    what it is called,
         "about":    a sentence: what it tells,
         "source":   "recorded" while training, or "computed" from the run's files afterwards,
         "numbers":  {what is counted, with its unit: a number or null},
         "plots":    {NAME: {
             "kind":    "lines", "bars", "matrix", "points" or "pictures",
             "x", "y":  {"name": with its unit, "values": numbers or words (lines, bars: of x; others: of both),
                         "log": true where the axis is logarithmic},
             "series":  {NAME: lines and bars: a value for each of x;
                               matrix: rows of values, a row for each of y;
                               points: {"x": [...], "y": [...], "class": [...], "old": [true, ...],
                                        "vectors": [[x, y], ...], "names": of the classes, where known};
                               pictures: a PNG in base64, a cell for each of x and y, all of one size}},
             "value":   what the entries of a matrix are, with their unit,
             "diagonal": true where the line y = x is worth seeing,
             "trim":    true where the zeros at both ends are not worth seeing,
             "mark":    a place of x that is worth seeing, or null}}}}}

Values that are not known are null. Arrays too large for it are in analysis.npz, as NAME/what.
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
    """What an axis shows, and where its values are."""

    name: str
    values: list[Any] = field(default_factory=list)
    log: bool = False


@dataclass(frozen=True)
class Plot:
    """Something to be drawn: one or several series over the same axes."""

    kind: Literal["lines", "bars", "matrix", "points", "pictures"]
    x: Axis
    y: Axis
    series: dict[str, Any]
    value: str = ""
    """What the entries of a matrix are."""
    diagonal: bool = False
    """Whether the line y = x is worth seeing."""
    mark: float | None = None
    """A place of x that is worth seeing."""
    trim: bool = False
    """Whether the zeros at both ends are not worth seeing."""

    @classmethod
    def read(cls, kept: Mapping[str, Any]) -> Plot:
        """From its form in JSON."""
        return cls(**dict(kept) | {"x": Axis(**kept["x"]), "y": Axis(**kept["y"])})


@dataclass(frozen=True)
class Analysis:
    """What was found out about one thing."""

    title: str
    about: str
    numbers: dict[str, float | None] = field(default_factory=dict)
    plots: dict[str, Plot] = field(default_factory=dict)
    source: Literal["recorded", "computed"] = "computed"
    arrays: Arrays = field(default_factory=dict)
    """What is too large for JSON."""

    @classmethod
    def read(cls, kept: Mapping[str, Any]) -> Analysis:
        """From its form in JSON."""
        return cls(**dict(kept) | {"plots": {name: Plot.read(plot) for name, plot in kept["plots"].items()}})


Analyses = dict[str, Analysis]


def write(folder: RunFolder, analyses: Analyses, sought: Iterable[str] = ()) -> None:
    """Write analysis.json, and analysis.npz where an analysis has arrays; what was `sought` is kept beside."""
    if arrays := _arrays(analyses):
        content = io.BytesIO()
        np.savez_compressed(content, **arrays)  # type: ignore[arg-type]
        folder.write_bytes(ARRAYS, content.getbuffer())
    whole = {"format": _FORMAT, "sought": sorted(sought), "analyses": _told(analyses)}
    text = json.dumps(whole, allow_nan=False)  # a line each would be many
    folder.write_bytes(FILE, f"{text}\n".encode())


def same(some: Analyses, others: Analyses) -> bool:
    """Whether their files would say the same."""
    arrays, theirs = _arrays(some), _arrays(others)
    return (
        _told(some) == _told(others)
        and arrays.keys() == theirs.keys()
        and all(np.array_equal(array, theirs[name], equal_nan=True) for name, array in arrays.items())
    )


def _told(analyses: Analyses) -> Any:
    """What is written in JSON."""
    kept = {name: asdict(analysis) for name, analysis in analyses.items()}
    return known({name: {key: kept[name][key] for key in kept[name] if key != "arrays"} for name in kept})


def _arrays(analyses: Analyses) -> Arrays:
    return {f"{name}/{what}": array for name, a in analyses.items() for what, array in a.arrays.items()}


def read(folder: RunFolder, arrays: bool = True) -> Analyses:
    """What analysis.json and, if asked for, analysis.npz hold; nothing where they are not there."""
    if not (folder.path / FILE).is_file():
        return {}
    try:
        kept = json.loads((folder.path / FILE).read_text())
        if kept["format"] != _FORMAT:
            raise ValueError(kept["format"])
        analyses = {name: Analysis.read(analysis) for name, analysis in kept["analyses"].items()}
        if arrays and (folder.path / ARRAYS).is_file():
            with (folder.path / ARRAYS).open("rb") as file, np.load(file) as kept_arrays:
                for key in kept_arrays.files:
                    name, _, what = key.partition("/")
                    if name in analyses:
                        analyses[name].arrays[what] = kept_arrays[key]
    except (KeyError, TypeError, ValueError, AttributeError, OSError, EOFError, BadZipFile, zlib.error) as error:
        raise MocaError(
            f"{folder.path / FILE}, or {ARRAYS} beside it, is damaged or of another version of moca ({error}); remove "
            "both, and what was not recorded while training can be computed again"
        ) from None
    return analyses


def analyses_of(result: Result) -> Analyses:
    """What the folder of a run holds, without arrays; nothing where its file is damaged."""
    try:
        return read(RunFolder(result.folder), arrays=False)
    except MocaError:
        return {}


def sought(folder: RunFolder) -> set[str]:
    """What was looked for in the run's files when analysis.json was written; nothing in one of an older version."""
    path = folder.path / FILE
    return set(json.loads(path.read_text()).get("sought", ())) if path.is_file() else set()


def known(value: Any) -> Any:
    """The same as JSON can hold it: numbers to six digits, null where there is none."""
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
    """With null for what is no number."""
    return [None if value is None or math.isnan(value) else float(value) for value in values]
