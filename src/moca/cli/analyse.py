"""`moca analyse`: what happened inside finished runs, as a table, files and figures."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.console import Console

from moca.errors import MocaError, nearest
from moca.starting import loading

if TYPE_CHECKING:
    from moca.measures.analyse import Analysed
    from moca.measures.together import Group

KNOWN = (
    "angle_deviation",
    "angular_fisher_score",
    "batch_norm_shift",
    "calibration",
    "classifier_angles",
    "confusion",
    "feature_plane",
    "forgetting_by_class",
    "gradient_spectrum",
    "linear_probe",
    "perturbation_angle",
    "test_angle_deviation",
)


def analyse(
    runs: Annotated[list[Path], Parameter(negative=())],
    /,
    *,
    only: Annotated[list[str] | None, Parameter(consume_multiple=True, negative=())] = None,
    out: Path | None = None,
    figures: bool = True,
    again: bool = False,
    device: str = "auto",
) -> int:
    """Analyse finished runs: angles, gradients, classifiers, confusion, calibration, forgetting, a linear probe.

    Several runs are put side by side, named by what differs; seeds of the same method are averaged. Each run's folder
    gets an analysis.json. What has to be recorded while training (moca run --record all) and was not is told.

    Parameters
    ----------
    runs
        Run folders, or folders of comparisons.
    only
        Show these analyses, by the names that they have in analysis.json, such as calibration.
    out
        Folder of the figures [default: figures, in the folder of the run or the one above all of them].
    figures
        Draw them, as PDF and PNG.
    again
        Compute again what was computed before.
    device
        cpu, cuda, or auto.
    """
    with loading():
        from rich.progress import track

        from moca.cli.show import console
        from moca.measures.analyse import analyse, runs_below
        from moca.measures.together import grouped

    if not runs:
        raise MocaError("name at least one run folder")
    folders, done, refused = runs_below(runs), [], []
    for folder in track(folders, "analysing", console=Console(stderr=True), transient=True, disable=len(folders) == 1):
        try:
            done.append(analyse(folder, device=device, again=again))
        except MocaError as error:
            refused.append(str(error))
    if not done:
        raise MocaError(refused[0] + (f" (and {len(refused) - 1} others)" if len(refused) > 1 else ""))
    where = out or _above(folders) / "figures"
    by_data = grouped([_only(run, only) for run in done])
    for number, (data, groups) in enumerate(by_data.items(), 1):
        _show(data, groups)
        if figures:
            from moca.measures.figures import draw

            drawn = draw(groups, where, f"-{number}" if len(by_data) > 1 else "")
            console.print(
                f"{len(drawn)} figure{'s' * (len(drawn) != 1)}, as PDF and PNG: {where}",
                soft_wrap=True,
                highlight=False,
            )
    if len(by_data) > 1:
        console.print("Runs on different data are kept apart: their numbers cannot be compared.", highlight=False)
    lines: dict[str, list[str]] = {}
    for run in done if not only else ():
        for line in run.missing:
            lines.setdefault(line, []).append(run.result.folder.name)
    for line, of in lines.items():
        whose = "" if len(of) == len(done) else f" ({', '.join(of[:3])}{', ...' * (len(of) > 3)})"
        end = "" if line.endswith("?") and not whose else "."
        console.print(f"Not there: {line}{whose}{end}", soft_wrap=True, highlight=False, markup=False)
    for line in refused:
        Console(stderr=True).print(f"moca: {line}", style="red", soft_wrap=True, highlight=False, markup=False)
    return 1 if refused else 0


def _only(run: Analysed, names: Sequence[str] | None) -> Analysed:
    """The run with these analyses alone, if any are named."""
    if not names:
        return run
    for name in names:
        if name not in KNOWN:
            raise MocaError(f"there is no analysis '{name}'; {nearest(name, KNOWN)}")
    return replace(run, analyses={name: found for name, found in run.analyses.items() if name in names}, missing=[])


def _above(folders: Sequence[Path]) -> Path:
    """The run's own folder, or the one above all of them."""
    return folders[0] if len(folders) == 1 else Path(os.path.commonpath([f.absolute().parent for f in folders]))


def _show(data: str, groups: Sequence[Group]) -> None:
    """All numbers, a column for each method."""
    from rich.table import Table
    from rich.text import Text

    from moca.cli.show import console

    table = Table(box=None, title=Text(data), title_justify="left")
    table.add_column("")
    for group in groups:
        seeds = len(group.runs)
        table.add_column(Text(group.label + (f" ({seeds} seeds)" if seeds > 1 else "")), justify="right")
    titles = dict.fromkeys(
        (name, analysis.title) for group in groups for run in group.runs for name, analysis in run.analyses.items()
    )
    for name, title in titles:
        names = dict.fromkeys(
            number for g in groups for run in g.runs if name in run.analyses for number in run.analyses[name].numbers
        )
        if names:
            table.add_row(Text(title, "bold"))
        for number in names:
            table.add_row(Text(f"  {number}"), *(_cell(*group.number(name, number)) for group in groups))
    console.print(table)


def _cell(mean: float, spread: float) -> str:
    if math.isnan(mean):
        return "-"
    return f"{mean:.4g}" + ("" if math.isnan(spread) else f" ± {spread:.2g}")
