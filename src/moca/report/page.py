"""The report: one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from moca.report import conditions
from moca.report.comparison import Comparison
from moca.report.figures import accuracy_curves, accuracy_matrices, feature_plane, final_accuracies
from moca.report.table import COLUMNS, lines
from moca.report.verdict import verdict

if TYPE_CHECKING:
    from moca.report.features import Panel

REPORT = "report.html"


def write_report(
    comparison: Comparison, feature_panels: Sequence[Panel] | None = None, about: str | None = None
) -> Path:
    """Write report.html into the folder of the comparison; `about` is a paragraph of the user's own."""
    comparison.folder.mkdir(parents=True, exist_ok=True)
    path = comparison.folder / REPORT
    path.write_text(render(comparison, feature_panels or (), about), encoding="utf-8", errors="replace")
    return path


def render(comparison: Comparison, feature_panels: Sequence[Panel] = (), about: str | None = None) -> str:
    """The page as text. It holds no date, so that the same results give the same page."""
    rows, results = comparison.rows, comparison.results
    finished = [row for row in rows if row.finished]
    source = files("moca.report").joinpath("page.html.jinja").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(source).render(
        title=_title(comparison),
        about=about,
        conditions=conditions.sentences(comparison) if results else "",
        command=conditions.command(results),
        settings=conditions.all_settings(results) if results else {},
        columns=COLUMNS,
        lines=lines(comparison),
        first=rows[0].label if rows else "",
        seeds=_seeds(comparison),
        verdict=verdict(comparison),
        curves=Markup(accuracy_curves(rows)) if finished else None,
        dots=Markup(final_accuracies(rows)) if finished else None,
        matrices=[Markup(accuracy_matrices([row])) for row in finished],
        planes=[Markup(feature_plane([panel])) for panel in feature_panels],
        unfinished=[(row.label, r) for row in rows for r in row.results if r.status != "finished"],
        notes=_notes(comparison),
    )


def _title(comparison: Comparison) -> str:
    rows, data = comparison.rows, sorted({r.settings.data_name for r in comparison.results})
    if not rows:
        return "A comparison without runs"
    return f"{rows[0].label if len(rows) == 1 else f'{len(rows)} methods'} on {', '.join(data)}"


def _seeds(comparison: Comparison) -> str:
    """How many finished runs stand behind a mean."""
    counts = sorted({len(row.finished) for row in comparison.rows if row.finished})
    if not counts:
        return "no seed"
    least, most = counts[0], counts[-1]
    return f"{least} to {most} seeds" if least < most else f"{most} seed{'' if most == 1 else 's'}"


def _notes(comparison: Comparison) -> dict[str, list[str]]:
    """Each note with the methods it is about."""
    notes: dict[str, list[str]] = {}
    for row in comparison.rows:
        for note in dict.fromkeys(n for r in row.results for n in r.notes):
            notes.setdefault(note, []).append(row.label)
    return notes
