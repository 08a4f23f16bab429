"""The report: one self-contained HTML file."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from moca.atomic import write
from moca.overwriting import PAGE, replaceable
from moca.report import captions, conditions, plots, tables
from moca.report.comparison import Comparison
from moca.report.exhibit import Exhibit, analyses
from moca.report.facets import colours, facets
from moca.report.methods import Setting
from moca.report.notes import notes
from moca.report.palette import LOOKS
from moca.report.plotting import Plot
from moca.report.sweeps import sweeps
from moca.report.table import Table
from moca.report.verdict import verdict

REPORT = "report.html"
_MOST_OPEN = 12
"""How many figures of a kind are shown at once; the others are folded away."""


def write_report(
    comparison: Comparison,
    exhibits: Sequence[Exhibit] = (),
    about: str | None = None,
    path: str | Path | None = None,
) -> Path:
    """Write the page, by default report.html in the comparison's folder; `about` is an introductory paragraph.

    An earlier report is replaced; any other file is kept, with an error.
    """
    path = replaceable(Path(path or comparison.folder / REPORT), PAGE)
    write(path, render(comparison, exhibits, about), "fix that and try again, or choose another with out=")
    return path


@dataclass
class _Data:
    """What the page's script needs, added as the page shows it: figures to draw and tables to copy."""

    plots: list[Plot] = field(default_factory=list)
    tables: list[dict[str, str]] = field(default_factory=list)

    def plot(self, plot: Plot) -> int:
        """Add a figure; return its index."""
        self.plots.append(plot)
        return len(self.plots) - 1

    def table(self, table: Table) -> int:
        """Add the texts of a table, to be copied; return its index."""
        self.tables.append({"csv": table.csv(), "markdown": table.markdown(), "latex": table.latex()})
        return len(self.tables) - 1

    def json(self) -> Markup:
        """The data as JSON, escaped so that nothing in it can close the script element."""
        looks = [{"light": look.light, "dark": look.dark} for look in LOOKS]
        text = json.dumps({"plots": self.plots, "tables": self.tables, "looks": looks},
                          allow_nan=False, separators=(",", ":"))  # fmt: skip
        return Markup(text.replace("<", r"\u003c").replace(">", r"\u003e").replace("&", r"\u0026"))


def render(comparison: Comparison, exhibits: Sequence[Exhibit] = (), about: str | None = None) -> str:
    """The page as HTML. It contains no date, so that the same results give the same page."""
    scripts = {"plotly": _plotly(), "own": _resource("page.js")}
    return _template().render(
        title=_title(comparison),
        about=about,
        parts=[_part(setting) for setting in comparison.settings],
        exhibits=exhibits,
        left_out=comparison.left_out,
        meanings=_meanings(comparison),
        styles=Markup(_resource("page.css")),
        scripts={name: Markup(script) for name, script in scripts.items()},
        allowed=" ".join(f"'sha256-{_hash(script)}'" for script in scripts.values()),
        data=_Data(),
        looks=LOOKS,
        most_open=_MOST_OPEN,
    )


def latex_tables(settings: Sequence[Setting]) -> str:
    """The tables for a paper: the summary and the pairwise comparisons of each setting."""
    texts = []
    for setting in settings:
        summary = tables.summary(setting, colours(setting), with_p=True)
        several = (summary, tables.perturbations(setting), *tables.learners(setting))
        texts += [table.latex() for table in several if table]
    return "\n".join(["% \\usepackage{booktabs}", *texts])


def _part(setting: Setting) -> dict[str, Any]:
    """The contents of one setting's section, as the template needs them."""
    where = setting.images
    differing, same = tables.settings(setting)
    drawn, varied = facets(setting), sweeps(setting)
    commands = {row.label: conditions.command(row.finished) for row in setting.finished}
    return {
        "setting": setting,
        "verdict": verdict(setting),
        "conditions": conditions.sentences(setting),
        "command": conditions.command(setting.results),
        "summary": tables.summary(setting, colours(setting)),
        "pairwise": [table for table in (tables.perturbations(setting), *tables.learners(setting)) if table],
        "figures": [
            {
                "title": facet.title,
                "curves": plots.curves(facet, where),
                "dots": plots.final_accuracies(facet, where),
                "stream": plots.over_stream(facet, where),
            }
            for facet in drawn
        ],
        "sweeps": [(f"Against {sweep.name}", plots.sweep(sweep, where)) for sweep in varied],
        "captions": {
            "accuracy": captions.accuracy(drawn),
            "varied": captions.varied(varied),
            "matrices": captions.matrices(setting),
        },
        "matrices": [(row.label, plots.matrix(row)) for row in setting.finished],
        "analyses": analyses(setting),
        "differing": differing,
        "same": same,
        "methods": [(label, command) for label, command in commands.items() if command],
        "runs": tables.runs(setting),
        "unfinished": [(row.label, r) for row in setting.rows for r in row.results if not r.finished],
        "notes": notes(setting.rows),
    }


def _title(comparison: Comparison) -> str:
    data = list(dict.fromkeys(r.settings.data_name for r in comparison.results))
    methods = list(dict.fromkeys(row.label for setting in comparison.settings for row in setting.rows))
    if not methods:
        return "A comparison without runs"
    return f"{methods[0] if len(methods) == 1 else f'{len(methods)} methods'} on {', '.join(data)}"


def _meanings(comparison: Comparison) -> list[tables.Column]:
    shown = {column.number for setting in comparison.settings for column in tables.columns(setting)}
    return [column for column in tables.COLUMNS if column.number in shown]


@functools.cache
def _template() -> Template:
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(_resource("page.html.jinja"))


@functools.cache
def _resource(name: str) -> str:
    return files("moca.report").joinpath(name).read_text(encoding="utf-8")


@functools.cache
def _plotly() -> str:
    """The source of plotly.js, from plotly's Python package."""
    return files("plotly").joinpath("package_data", "plotly.min.js").read_text(encoding="utf-8").replace("\r", "")


@functools.cache
def _hash(script: str) -> str:
    """The hash by which the page's content security policy allows this script and no other."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
