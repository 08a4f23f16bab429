"""Building blocks of the page's figures, as data for plotly.

A trace has the index of its colour in `meta`; the page's script colours it for a light or a dark page. Text from the
user is escaped, since plotly interprets some HTML in it.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import Any

from moca.report.labels import plain, wrapped
from moca.report.palette import LOOKS

Trace = dict[str, Any]
Plot = dict[str, Any]
"""Keys: `kind`, `alt` (a description of the figure), `data` (traces), `layout` and `height` in pixels."""

MOST_NUMBERED = 12
"""Largest matrix, in cells a side, whose cells show their numbers."""
BARE = {"showgrid": False, "zeroline": False, "fixedrange": True}
"""Layout of an axis without lines."""
NAME = "<b>%{fullData.name}</b><br>"


def shown(label: str, length: int = 60) -> str:
    """A label escaped for plotly, so that it is shown as plain text."""
    return html.escape(plain(label, length), quote=False).replace("$", "&#36;")  # a $ would start a formula


def named(label: str) -> str:
    """A label for a legend, wrapped to fit a phone."""
    return "<br>".join(shown(line) for line in wrapped(label, 36))


def line(
    label: str, place: int, x: Sequence[Any], mean: Sequence[float | None], std: Sequence[float | None],
    details: Sequence[str], hover: str, level: bool = False,
) -> list[Trace]:  # fmt: skip
    """A line with a band of one standard deviation, which the legend hides together.

    `details` are added to the hover text of each point; a `level` line is dotted, without markers.
    """
    look, group = LOOKS[place], f"{place}{' level' * level}"
    drawn = {
        "type": "scatter", "mode": "lines" if level else "lines+markers", "name": named(label), "legendgroup": group,
        "x": list(x), "y": list(mean), "meta": {"colour": place},
        "line": {"width": 2, "dash": "dot" if level else look.dash},
        "marker": {"symbol": look.symbol, "size": 7},
        "customdata": list(details), "hovertemplate": f"{NAME}{hover}<extra></extra>",
    }  # fmt: skip
    known = [(m, s or 0.0, at) for m, s, at in zip(mean, std, x, strict=True) if m is not None]
    first = next((i for i, m in enumerate(mean) if m is not None), 0)
    if not any(std) or None in mean[first : first + len(known)]:  # a band has no gaps
        return [drawn]
    band = {
        "type": "scatter", "mode": "lines", "name": named(label), "legendgroup": group, "showlegend": False,
        "hoverinfo": "skip", "x": [at for _, _, at in known] + [at for _, _, at in reversed(known)],
        "y": [significant(m + s) for m, s, _ in known] + [significant(m - s) for m, s, _ in reversed(known)],
        "fill": "toself", "line": {"width": 0}, "meta": {"band": place},
    }  # fmt: skip
    return [band, drawn]


def heat(
    values: Sequence[Sequence[float | None]], details: Any, ends: tuple[float, float], hover: str, text: str
) -> Trace:
    """A heat map with numbers in its cells; if it is too large for them, with a wider range of shades and a scale."""
    numbered = max(map(len, values)) <= MOST_NUMBERED
    return {
        "type": "heatmap", "meta": {"shades": "few" if numbered else "all"}, "zmin": ends[0], "zmax": ends[1],
        "xgap": int(numbered), "ygap": int(numbered),
        "z": [list(line) for line in values], "customdata": details, "hovertemplate": f"{hover}<extra></extra>",
        "hoverongaps": False, "showscale": not numbered,
        "colorbar": {"thickness": 10, "outlinewidth": 0, "tickfont": {"size": 11}},
    } | ({"texttemplate": text} if numbered else {})  # fmt: skip


def figure(kind: str, alt: str, traces: list[Trace], layout: dict[str, Any], height: int) -> Plot:
    """A figure in the form that the page's script draws."""
    return {"kind": kind, "alt": alt, "data": traces, "layout": layout, "height": height}


def number(value: float) -> float | None:
    """A number rounded for JSON; None if it is not finite."""
    return round(float(value), 3) if math.isfinite(value) else None


def significant(value: float) -> float:
    """A number rounded to five significant digits, enough for a figure of any scale."""
    return float(f"{value:.5g}")
