"""`moca report`: finished runs as an HTML page, tables and figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from moca.atomic import write
from moca.cli.filters import Several, refuse_folders_after, why_none
from moca.cli.show import busy, console, say, show_notes
from moca.engine.listing import RUNS, Listed, chosen, listed
from moca.errors import MocaError
from moca.importing import loading
from moca.overwriting import LATEX, PAGE, replaceable
from moca.paths import from_here

if TYPE_CHECKING:
    from moca.report.methods import Setting

_MOST_LINES = 8


def report(
    *runs: Path,
    learner: Annotated[list[str] | None, Several] = None,
    perturb: Annotated[list[str] | None, Several] = None,
    data: Annotated[list[str] | None, Several] = None,
    out: Annotated[Path, Parameter(help="the page to write, ending in .html")] = Path("report.html"),
    tables: Annotated[Path | None, Parameter(show_default=False)] = None,
    figures: Annotated[Path | None, Parameter(show_default=False)] = None,
    latex: Annotated[Path | None, Parameter(show_default=False)] = None,
) -> None:
    """Write a report of finished runs from anywhere: one self-contained HTML page.

    Runs on different data, tasks or test images get separate sections. Runs that are not finished, or that this version
    cannot read, are named and left out; runs that diverged count as seeds of their method, but have no numbers. Earlier
    reports, tables and figures are replaced; files that moca did not write are kept.

    Parameters
    ----------
    runs
        Folders of runs or comparisons, or their parent folders [default: runs]
    learner
        Only runs of these learners.
    perturb
        Only runs with these perturbations; none selects those without.
    data
        Only runs on these data sets.
    tables
        Also write runs.csv (a line per run) and tidy.csv (a line per run, task and number, with settings as columns; if
        pyarrow is installed, tidy.parquet too) into this folder.
    figures
        Also write the figures as PDF and PNG, for print, into this folder.
    latex
        Also write the tables as LaTeX to this file, ending in .tex; those on held-out images, if there are others, to
        a second one.
    """
    with loading():
        from moca.report.chosen import changes_in, told_in
        from moca.report.comparison import Comparison
        from moca.report.notes import mixed
        from moca.report.page import latex_tables, write_report

    if not runs and not RUNS.is_dir():
        raise MocaError(f"there is no folder '{RUNS}' here; say where runs are: moca report FOLDER")
    replaceable(out, PAGE)
    if latex:
        replaceable(latex, LATEX)
        replaceable(_of_held_out(latex), LATEX)
    places = runs or (RUNS,)
    with busy("reading runs and writing the page"):
        comparison = Comparison.load(places, only=_selected(places, learner, perturb, data))
        about = " ".join(filter(None, map(told_in, places)))
        page = write_report(comparison, about=about or None, path=out)
    written = []  # everything is written before anything is printed, since `moca report | head` ends the printing early
    if tables:
        comparison.save(tables)
        written.append(f"Tables: {tables}")
    if figures:
        from moca.report.figures import save_figures

        with busy("drawing figures"):
            made = save_figures(comparison, figures)
        written.append(f"Figures: {len(made)} files in {figures}")
    for path, settings in _tables_apart(latex, comparison.settings).items() if latex else ():
        write(path, latex_tables(settings), "choose another --latex")
        written.append(f"LaTeX: {path}")
    console.print(comparison)
    _say_first("Not finished", [f"{from_here(r.folder)}: {r.message}" for r in comparison.results if not r.finished])
    _say_first("Left out", comparison.left_out)
    show_notes(comparison, mixed(comparison.rows))
    for place in places:
        if changes := changes_in(place):
            say(f"Not all of {place} was chosen before testing: {changes}.")
    if len(comparison.settings) > 1:
        say(f"{len(comparison.settings)} settings whose numbers cannot be compared, each in its own section.")
    for line in [*written, f"Report: {from_here(page)}"]:
        say(line)


def _tables_apart(latex: Path, settings: Sequence[Setting]) -> dict[Path, list[Setting]]:
    """What goes into which LaTeX file: results on held-out images have one of their own beside those on test images."""
    tested, held_out = ([one for one in settings if one.held_out == held] for held in (False, True))
    return {latex: tested} | ({_of_held_out(latex): held_out} if held_out else {}) if tested else {latex: held_out}


def _of_held_out(latex: Path) -> Path:
    return latex.with_stem(f"{latex.stem}-held-out")


def _selected(
    places: Sequence[Path],
    learner: Sequence[str] | None,
    perturb: Sequence[str] | None,
    data: Sequence[str] | None,
) -> list[Listed] | None:
    """The runs that were asked for; None if that is all of them."""
    filters = {"learner": learner, "perturb": perturb, "data": data}
    if not any(filters.values()):
        return None
    every = list(listed(*places))
    refuse_folders_after(filters, every, "report")
    if selected := chosen(every, learner or (), perturb or (), data or ()):
        return selected
    reason = why_none(places, every, filters)
    raise MocaError(reason[0].lower() + reason[1:])


def _say_first(what: str, lines: Sequence[str]) -> None:
    """Print the first lines, and how many more there are."""
    for line in lines[:_MOST_LINES]:
        say(f"{what}: {line}")
    if len(lines) > _MOST_LINES:
        say(f"{what}: {len(lines) - _MOST_LINES} more; the page names them.")
