"""What the figures of the page are made of, as data for plotly.

A trace names the place of its colour (`meta`); the page's script paints it for a light or a dark page. Words of the
user's own are escaped, since plotly reads some HTML in them.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import Any

from moca.report.labels import folded, plain
from moca.report.palette import LOOKS

Trace = dict[str, Any]
Plot = dict[str, Any]
"""`kind`, `alt` (the figure in words), `data` (traces), `layout` and `height` in pixels."""

MOST_NUMBERED = 12
"""Cells a side up to which those of a matrix have room for numbers."""
BARE = {"showgrid": False, "zeroline": False, "fixedrange": True}
"""An axis without lines."""
NAME = "<b>%{fullData.name}</b><br>"


def shown(label: str, length: int = 60) -> str:
    """A label as plotly can show it: nothing in it but text."""
    return html.escape(plain(label, length), quote=False).replace("$", "&#36;")  # or it would be a formula


def named(label: str) -> str:
    """A label in a legend, in as many lines as fit a phone."""
    return "<br>".join(shown(line) for line in folded(plain(label, 108), 36))


def line(
    label: str, place: int, x: Sequence[Any], mean: Sequence[float | None], std: Sequence[float | None],
    told: Sequence[str], hover: str, level: bool = False,
) -> list[Trace]:  # fmt: skip
    """A line with a band of one deviation, hidden together; `told` stands behind the numbers when one points at it."""
    look, group = LOOKS[place], str(place)
    drawn = {
        "type": "scatter", "mode": "lines" if level else "lines+markers", "name": named(label), "legendgroup": group,
        "x": list(x), "y": list(mean), "meta": {"colour": place},
        "line": {"width": 2, "dash": "dot" if level else look.dash},
        "marker": {"symbol": look.symbol, "size": 7},
        "customdata": list(told), "hovertemplate": f"{NAME}{hover}<extra></extra>",
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
    values: Sequence[Sequence[float | None]], told: Any, ends: tuple[float, float], hover: str, text: str
) -> Trace:
    """Cells by their shade, with numbers where there is room for them; else the shades go all the way from light to
    dark, and are explained."""
    numbered = max(map(len, values)) <= MOST_NUMBERED
    return {
        "type": "heatmap", "meta": {"shades": "few" if numbered else "all"}, "zmin": ends[0], "zmax": ends[1],
        "xgap": int(numbered), "ygap": int(numbered),
        "z": [list(line) for line in values], "customdata": told, "hovertemplate": f"{hover}<extra></extra>",
        "hoverongaps": False, "showscale": not numbered,
        "colorbar": {"thickness": 10, "outlinewidth": 0, "tickfont": {"size": 11}},
    } | ({"texttemplate": text} if numbered else {})  # fmt: skip


def figure(kind: str, alt: str, traces: list[Trace], layout: dict[str, Any], height: int) -> Plot:
    """What the page's script draws."""
    return {"kind": kind, "alt": alt, "data": traces, "layout": layout, "height": height}


def number(value: float) -> float | None:
    """As JSON can hold it, with as many digits as a reader can see."""
    return round(float(value), 3) if math.isfinite(value) else None


def significant(value: float) -> float:
    """With as many digits as a figure of any scale can show."""
    return float(f"{value:.5g}")
