"""What the page's figures of accuracies show, in words: only what they contain."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from moca.report.facets import Facet
from moca.report.methods import Row, Setting
from moca.report.sweeps import Sweep

_BAND = "one standard deviation to either side"
_CLICK = "Click a name in a legend to hide its line, double-click it to hide all others."


def accuracy(figures: Sequence[Facet]) -> str:
    """The caption of the accuracies over tasks, over the stream and at the end."""
    rows = [row for figure in figures for row in figure.rows]
    seeds = _several_seeds(rows)
    over_tasks = f", as the mean over seeds with a band of {_BAND}" * seeds
    at_once = "; a dotted horizontal line is a method that learns all tasks at once" * any(r.at_once for r in rows)
    final = f"with a dot for each seed, the mean as a stroke, and {_BAND}" if seeds else "a dot for each method"
    stream = "Below: accuracy within the stream, on the tasks begun so far; its mean is the anytime accuracy."
    several = "A figure shows at most eight methods; colours have the same meaning only within a figure."
    return " ".join([
        f"First figure: accuracy on the tasks learned so far{over_tasks}{at_once}.",
        f"Second figure: final accuracy, {final}.",
        *[stream] * any(row.over_stream()[0] for row in rows),
        *[_CLICK] * any(len(figure.rows) > 1 for figure in figures),
        *[several] * (len(figures) > 1),
    ])  # fmt: skip


def varied(sweeps: Sequence[Sweep]) -> str:
    """The caption of final accuracies against settings that were varied."""
    seeds = _several_seeds(row for sweep in sweeps for row in sweep.rows)
    return " ".join([
        f"Methods that were run with several values of one setting and everything else the same"
        f"{f': mean over seeds, with a band of {_BAND}' * seeds}.",
        *["A dotted horizontal line is a learner that does not have this setting."] * any(s.levels for s in sweeps),
    ])  # fmt: skip


def matrices(setting: Setting) -> str:
    """The caption of the accuracies on each task after each task."""
    rows = setting.finished
    fading = " A column that fades towards the bottom is a task being forgotten."
    return (
        "Accuracy in percent on each task (column) after each task was learned (row)"
        f"{', mean over seeds' * _several_seeds(rows)}. Tasks not learned yet are left blank."
        f"{fading * any(row.tasks > 1 and not row.at_once for row in rows)}"
    )


def _several_seeds(rows: Iterable[Row]) -> bool:
    return any(len(row.finished) > 1 for row in rows)
