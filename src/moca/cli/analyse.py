"""`moca analyse`: analyse finished runs; prints tables, writes files and draws figures."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from rich.console import Console

from moca.cli.hints import as_options
from moca.cli.show import busy, complain, console, say
from moca.errors import Interrupted, MocaError, nearest
from moca.importing import loading
from moca.paths import from_here
from moca.wording import counted, some

if TYPE_CHECKING:
    from moca.measures.analyse import Analysed
    from moca.report.methods import Setting


def analyse(
    runs: Annotated[list[Path], Parameter(negative=())],
    /,
    *,
    only: Annotated[list[str] | None, Parameter(consume_multiple=1, negative=())] = None,
    classes: Annotated[list[str] | None, Parameter(consume_multiple=1, negative=())] = None,
    out: Path | None = None,
    figures: bool = True,
    again: bool = False,
    device: str = "auto",
) -> int:
    """Analyse finished runs: angles, gradients, classifiers, confusion, calibration, forgetting, implicit augmentation.

    Several runs are shown side by side, named by the settings in which they differ; seeds of the same method are
    averaged. Each run's folder gets an analysis.json. Some analyses need what moca run --record all writes during
    training; those that lack it are named.

    Parameters
    ----------
    runs
        Run folders, or folders of comparisons.
    only
        Show only these analyses, by their names in analysis.json, such as calibration. One runs only if you name it:
        implicit_augmentation shows what a perturbation makes of an old image. It needs a generator of images, which is
        trained once per data set, in minutes (see moca data generator).
    classes
        For implicit_augmentation: the old classes whose images are shown [default: three].
    out
        Folder for the figures [default: figures, in the folder of the run or in the common parent of several].
    figures
        Draw figures, as PDF and PNG.
    again
        Recompute analyses that were computed before.
    device
        cpu, cuda, or auto.
    """
    with loading():
        from moca.engine.listing import run_folders
        from moca.measures.analyse import ASKED_FOR, KNOWN
        from moca.report.comparison import Comparison
        from moca.report.loading import labelled, once

    if not runs:
        raise MocaError("name at least one run folder")
    for name in only or ():
        if name not in KNOWN:
            raise MocaError(f"there is no analysis '{name}'; {nearest(name, KNOWN)}")
    also = [name for name in only or () if name in ASKED_FOR]
    if classes and not also:
        raise MocaError(f"--classes is an option of {', '.join(ASKED_FOR)}; add --only {ASKED_FOR[0]}")
    folders = run_folders(*runs)
    if not folders:
        raise MocaError(f"there is no run in {', '.join(map(str, runs))}; moca runs lists what is there")
    done, refused = _analyse_each(folders, also, device=device, again=again, classes=classes or ())
    if not done:
        raise MocaError(refused[0] + (f" (and {len(refused) - 1} others)" if len(refused) > 1 else ""))
    if only and not any(name in run.analyses for run in done for name in only):
        raise MocaError("; ".join(dict.fromkeys(line for name in only for line in done[0].lacks(name))))
    where = out or _common_folder(folders) / "figures"
    unique, twins = once([run.result for run in done])
    settings = Comparison(labelled(unique), where).settings
    for number, setting in enumerate(settings, 1):
        _show(setting, only)
        if figures:
            _draw(setting, where, f"{number}-" if len(settings) > 1 else "", only)
    if len(settings) > 1:
        say("Runs on different data are shown separately: their numbers cannot be compared.")
    for line in twins:
        say(f"Left out: {line}")
    _show_missing([run for run in done if any(run.result is result for result in unique)], only)
    for line in refused:
        complain(as_options(line))
    return 1 if refused else 0


def _analyse_each(folders: Sequence[Path], also: Sequence[str], **options: Any) -> tuple[list[Analysed], list[str]]:
    """Analyse each run; return the analyses, and an error message for each run that has none."""
    from rich.progress import track

    from moca.measures.analyse import analyse

    done, refused, several = [], list[str](), len(folders) > 1
    quiet = not several or bool(also)  # those in `also` show their own progress bars
    for folder in track(folders, "analysing", console=Console(stderr=True), transient=True, disable=quiet):
        try:
            with nullcontext() if also or several else busy("analysing"):
                done.append(analyse(folder, also=also, progress=True, **options))
        except Interrupted:
            raise
        except MocaError as error:
            refused.append(str(error))
    return done, refused


def _show(setting: Setting, only: Sequence[str] | None) -> None:
    from moca.cli.analysis_tables import tables
    from moca.report.side_by_side import analyses, groups

    methods = groups(setting.rows, only)
    for part in tables(setting.title, methods, console) if analyses(methods) else ():
        console.print(part, highlight=False)


def _draw(setting: Setting, where: Path, before: str, only: Sequence[str] | None) -> None:
    from moca.report.analysis_figures import draw

    with busy("drawing"):
        drawn = len(draw(setting, where, before, only)) // 2
    figures = f"{counted(drawn, 'figure')}, as PDF and PNG: {where}"
    say(figures if drawn else "No figure: nothing to draw.")


def _show_missing(runs: Sequence[Analysed], only: Sequence[str] | None) -> None:
    """Print why analyses are missing, each reason once, with the runs concerned unless that is all of them."""
    lines: dict[str, list[str]] = {}
    for run in runs:
        for line in [line for name in only for line in run.lacks(name)] if only else run.missing:
            lines.setdefault(line, []).append(run.result.folder.name)
    for line, names in lines.items():
        whose = "" if len(names) == len(runs) else f" ({some(names, 3)})"
        end = "" if line.endswith("?") and not whose else "."
        say(as_options(f"Skipped: {line}{whose}{end}"))


def _common_folder(folders: Sequence[Path]) -> Path:
    """The folder of a single run, or the common parent of several."""
    if len(folders) == 1:
        return folders[0]
    return from_here(Path(os.path.commonpath([f.absolute().parent for f in folders])))
