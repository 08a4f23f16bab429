"""Options that select among the runs in some folders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from cyclopts import Parameter

from moca.cli.hints import folders_first
from moca.engine.listing import RUNS, Listed, names_of
from moca.errors import MocaError, nearest
from moca.wording import counted

Several = Parameter(consume_multiple=1, negative=(), show_default=False)
Filters = Mapping[str, Sequence[str] | None]
"""The values that are looked for, by the name of the option: learner, perturb, data."""


def refuse_folders_after(filters: Filters, runs: Sequence[Listed], command: str) -> None:
    """Raise a `MocaError` for a folder that was taken for one more value of a filter before it."""
    for name, values in filters.items():
        for value in (values or ())[1:]:
            if Path(value).is_dir() and not any(value in names_of(getattr(run, name)) for run in runs):
                raise MocaError(folders_first(value, f"--{name}", command))


def why_none(places: Sequence[Path], others: Sequence[Listed], filters: Filters) -> str:
    """Why no run is left, and what to do about it."""
    where = ", ".join(map(str, places)) or f"{RUNS} (there is no such folder here)"
    for name, values in filters.items():
        known = {one for run in others for one in names_of(getattr(run, name))}
        if others and values and not known & set(values):
            return f"No run in {where} has {name} '{values[0]}'; {nearest(values[0], sorted(known))}"
    if others:
        return f"No such run in {where}; {counted(len(others), 'other')} there."
    return f"No run in {where}. Begin one: moca run; or name the folder where runs are: moca runs FOLDER"
