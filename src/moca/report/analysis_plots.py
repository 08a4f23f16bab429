"""Figures of analyses for the page, as plotly data, drawn only from the description in `Plot`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from moca.measures.analysis import Axis
from moca.measures.pictures import pixels
from moca.report.labels import folded, named_places, plain
from moca.report.palette import colours_of
from moca.report.plotting import (
    BARE,
    MOST_NUMBERED,
    NAME,
    Plot,
    Trace,
    figure,
    heat,
    line,
    named,
    number,
    shown,
    significant,
)
from moca.report.side_by_side import MARKED, Line, Panel, heights, old_classes, shades, widths

_MOST_NAMED = 20
"""Most tick labels along an axis."""


def of_panels(drawn: Sequence[Panel], about: str) -> list[tuple[str, Plot]]:
    """One figure per panel, with its title. Class colours are the same in all of them; ranges and shades too, but for
    features in the plane."""
    kind = drawn[0].plot.kind
    alts = [f"{about}: {panel.title}".removesuffix(": ") for panel in drawn]
    if kind == "points":
        colours = colours_of(old_classes(drawn))
        made = [plane(panel.lines[0].values, colours, alt) for panel, alt in zip(drawn, alts, strict=True)]
    elif kind == "matrix":
        low, high = shades(drawn)
        ends = significant(low), significant(high)
        made = [_matrix(panel.lines[0], ends, alt) for panel, alt in zip(drawn, alts, strict=True)]
    elif kind == "pictures":
        made = [_pictures(panel.lines[0], alt) for panel, alt in zip(drawn, alts, strict=True)]
    else:
        y_range = heights(drawn)
        draw = _bars if kind == "bars" else _lines
        made = [draw(panel, y_range, alt) for panel, alt in zip(drawn, alts, strict=True)]
        if x_range := widths(drawn):
            for one in made:
                one["layout"]["xaxis"]["range"] = list(x_range)
    return [(panel.title, plot) for panel, plot in zip(drawn, made, strict=True)]


def _lines(panel: Panel, y_range: tuple[float, float], alt: str) -> Plot:
    plot = panel.plot
    traces: list[Trace] = []
    hover = f"{plot.x.name.lower()} %{{x}}: %{{y:.4g}}%{{customdata}}".lstrip()
    for one in panel.lines:
        mean, std = _rounded(one.values), _rounded(one.spread or [None] * len(one.values))
        if plot.y.log:  # a band must stay above 0
            std = [None if m is None or s is None else min(s, 0.9 * m) for m, s in zip(mean, std, strict=True)]
        x, details = one.plot.x.values, _plus_minus(one.spread, one.values)
        drawn = line(one.label, one.place, x, mean, std, details, hover + _seeds(one))
        traces += drawn if len(x) <= MARKED else [trace | {"mode": "lines"} for trace in drawn]
    dashed: dict[str, Any] = {"type": "line", "line": {"dash": "dash", "width": 1}}
    shapes = [dashed | {"x0": 0, "y0": 0, "x1": 1, "y1": 1}] * plot.diagonal
    shapes += [dashed | {"x0": mark, "x1": mark, "yref": "paper", "y0": 0, "y1": 1} for mark in panel.marks]
    counted = all(isinstance(value, int) for value in panel.x) and len(panel.x) <= 12
    x_axis = _axis(plot.x) | ({"dtick": 1} if counted and not plot.x.log else {})
    layout = {"xaxis": x_axis, "yaxis": _axis(plot.y, y_range), "shapes": shapes}
    return figure("curves", alt, traces, layout | {"showlegend": len(panel.lines) > 1}, 320)


def _bars(panel: Panel, y_range: tuple[float, float], alt: str) -> Plot:
    plot = panel.plot
    traces = [
        {
            "type": "bar", "name": named(one.label), "legendgroup": str(one.place), "meta": {"colour": one.place},
            "x": list(range(len(one.values))), "y": _rounded(one.values),
            "customdata": [[shown(str(name)), std]
                           for name, std in zip(one.plot.x.values, _plus_minus(one.spread, one.values), strict=True)],
            "hovertemplate": f"{NAME}%{{customdata[0]}}: %{{y:.4g}}%{{customdata[1]}}{_seeds(one)}<extra></extra>",
        } | ({"error_y": {"type": "data", "array": _rounded(one.spread), "thickness": 1.2, "width": 2}}
             if one.spread else {})
        for one in panel.lines
    ]  # fmt: skip
    layout = {
        "xaxis": {"title": {"text": plot.x.name}, **_named_ticks(plot.x.values), "zeroline": False, "showgrid": False},
        "yaxis": _axis(plot.y, y_range), "bargap": 0.25, "bargroupgap": 0.06,
        "showlegend": len(panel.lines) > 1,
    }  # fmt: skip
    return figure("curves", alt, traces, layout, 320)


def _matrix(one: Line, ends: tuple[float, float], alt: str) -> Plot:
    plot, values, shares = one.plot, [_rounded(row) for row in one.values], ends == (0.0, 1.0)
    spreads = one.spread or [None] * len(values)
    names = [[shown(str(name), 24) for name in axis.values] for axis in (plot.x, plot.y)]
    details = [
        [[names[0][j], names[1][i], text] for j, text in enumerate(_plus_minus(spread, row))]
        for i, (row, spread) in enumerate(zip(values, spreads, strict=True))
    ]
    hover = (
        f"{plot.y.name}: %{{customdata[1]}}<br>{plot.x.name}: %{{customdata[0]}}<br>"
        f"{plot.value}: %{{z:.3g}}%{{customdata[2]}}{_seeds(one)}"
    )
    texts = [[_cell(value, shares) for value in row] for row in values]
    trace = heat(values, details, ends, hover, "%{text}") | {"text": texts}
    ticks = [_named_ticks(axis.values, 12, MOST_NUMBERED) for axis in (plot.x, plot.y)]
    layout = {
        "xaxis": BARE | {"title": {"text": plot.x.name}} | ticks[0],
        "yaxis": BARE | {"title": {"text": plot.y.name}, "autorange": "reversed"} | ticks[1],
        "showlegend": False,
    }
    return figure("matrix", alt, [trace], layout, 320)


def plane(points: Mapping[str, Any], colours: Mapping[int, tuple[str, str]], alt: str) -> Plot:
    """Features in the plane: old classes as filled circles, new ones as open triangles, class vectors as lines."""
    old = dict(zip(points["class"], points["old"], strict=True))
    x, y, labels = (np.array(points[name]) for name in ("x", "y", "class"))
    # A radius that a few outliers do not determine.
    radius = float(np.quantile(np.hypot(x, y), 0.995)) or 1.0 if len(x) else 1.0
    traces: list[Trace] = []
    names = []
    for c in sorted(old):
        label = str(points["names"][c]) if c < len(points.get("names", ())) else str(c)
        name = shown(label, 24)
        both = {"type": "scatter", "name": name, "legendgroup": str(c), "meta": {"own": colours[c]}}
        traces.append(both | {
            "mode": "markers",
            "x": [number(v) for v in x[labels == c]], "y": [number(v) for v in y[labels == c]],
            "marker": {"symbol": "circle" if old[c] else "triangle-up-open", "size": 5, "opacity": 0.7},
            "hovertemplate": f"class {name.replace('%', '')}, {'old' if old[c] else 'new'}<extra></extra>",
        })  # fmt: skip
        if c >= len(points["vectors"]):
            continue
        angle = math.atan2(*reversed(points["vectors"][c]))
        end = np.array([math.cos(angle), math.sin(angle)]) * radius
        traces.append(both | {
            "mode": "lines", "showlegend": False, "x": [0, number(end[0])], "y": [0, number(end[1])],
            "line": {"width": 2.2}, "hoverinfo": "skip",
        })  # fmt: skip
        names.append({"text": f"<b>{shown(label, 12)}</b>", "x": number(1.1 * end[0]), "y": number(1.1 * end[1]),
                      "showarrow": False})  # fmt: skip
    bare = {"visible": False, "range": [-1.25 * radius, 1.25 * radius]}
    layout = {"xaxis": bare, "yaxis": bare | {"scaleanchor": "x"}, "annotations": names, "showlegend": True}
    return figure("plane", alt, traces, layout, 400)


def _pictures(one: Line, alt: str) -> Plot:
    sheet = pixels(one.values)
    down, across = (side / len(axis.values) for side, axis in zip(sheet.shape, (one.plot.y, one.plot.x), strict=False))
    bare = BARE | {"ticks": "", "showline": False, "constrain": "domain", "automargin": False}
    trace = {"type": "image", "source": f"data:image/png;base64,{one.values}", "hoverinfo": "skip"}
    layout = {
        "xaxis": bare | {"title": {"text": one.plot.x.name}, "side": "top"} | _in_cells(one.plot.x, across),
        "yaxis": bare | {"title": {"text": one.plot.y.name}, "scaleanchor": "x"} | _in_cells(one.plot.y, down),
        "showlegend": False,
    }
    return figure("pictures", alt, [trace], layout, 42 * len(one.plot.y.values) + 70) | {"shape": sheet.shape[:2]}


def _in_cells(axis: Axis, size: float) -> dict[str, Any]:
    """Tick labels in the middle of cells of `size` pixels, wrapped so that names and pictures fit a phone."""
    places = [size * (place + 0.5) - 0.5 for place in range(len(axis.values))]
    names = ["<br>".join(map(shown, folded(plain(str(name), 40), 14))) for name in axis.values]
    return {"tickmode": "array", "tickvals": places, "ticktext": names, "tickangle": 0, "tickfont": {"size": 10}}


def _cell(value: float | None, share: bool) -> str:
    """The text in a matrix cell: a share in percent, empty below 0.5 %; any other value to one digit."""
    if value is None or (share and value < 0.005):
        return ""
    return f"{100 * value:.0f}" if share else f"{value:.1f}"


def _axis(axis: Axis, ends: tuple[float, float] | None = None) -> dict[str, Any]:
    made: dict[str, Any] = {"title": {"text": axis.name}}
    if axis.log:
        made |= {"type": "log", "exponentformat": "power", "dtick": 1}
    if ends:
        made["range"] = [significant(math.log10(end) if axis.log else end) for end in ends]
    return made


def _named_ticks(values: Sequence[Any], length: int = 16, most: int = _MOST_NAMED) -> dict[str, Any]:
    """Tick labels at 0, 1, ...; evenly spaced ones if there are more than `most`."""
    at = list(named_places(len(values), most))
    return {"tickmode": "array", "tickvals": at, "ticktext": [shown(str(values[i]), length) for i in at]}


def _seeds(one: Line) -> str:
    return f" (n = {one.seeds})"


def _plus_minus(spread: Sequence[float | None] | None, values: Sequence[Any]) -> list[str]:
    return ["" if s is None else f" ± {s:.2g}" for s in spread or [None] * len(values)]


def _rounded(values: Sequence[float | None]) -> list[float | None]:
    return [None if value is None else significant(value) for value in values]
