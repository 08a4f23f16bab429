"""The figures of the page, as data for plotly.

A trace names the place of its colour (`meta`); the page's script paints it for a light or a dark page. Words of the
user's own are escaped, since plotly reads some HTML in them.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from moca.report.comparison import Row, Setting, Spread
from moca.report.facets import Facet
from moca.report.labels import folded, plain
from moca.report.palette import LOOKS, class_colours

if TYPE_CHECKING:
    from moca.report.features import Panel

Plot = dict[str, Any]
"""`kind`, `alt` (the figure in words), `data` (traces), `layout` and `height` in pixels."""

_MOST_POINTS = 1500
_MOST_NUMBERED = 12
"""Tasks up to which the cells of a matrix have room for numbers."""
_NAME = "<b>%{fullData.name}</b><br>"


def shown(label: str, length: int = 60) -> str:
    """A label as plotly can show it: nothing in it but text."""
    return html.escape(plain(label, length), quote=False).replace("$", "&#36;")  # or it would be a formula


def named(label: str) -> str:
    """A label in a legend, in as many lines as fit a phone."""
    return "<br>".join(shown(line) for line in folded(plain(label, 108), 36))


def curves(facet: Facet, judged: str) -> Plot:
    """Accuracy over the tasks learned so far: mean over seeds as a line, one standard deviation as a band."""
    traces: list[dict[str, Any]] = []
    for place, row in enumerate(facet.rows):
        values = 100 * np.array([r.accuracy_over_tasks for r in row.finished])
        tasks = len(row.finished[0].accuracy_matrix[0])
        at_once = values.shape[1] == 1 and tasks > 1
        x = [1, tasks] if at_once else list(range(1, values.shape[1] + 1))
        traces += _line(
            row.label, place, x, np.repeat(values, 2, axis=1) if at_once else values, "task %{x}: ", at_once
        )
    layout = {"xaxis": {"title": {"text": "Tasks learned"}, "dtick": _every(traces)},
              "yaxis": {"title": {"text": f"Accuracy on {judged} (%)"}}}  # fmt: skip
    return _plot("curves", "Accuracy over the tasks learned so far, a line for each method", traces, layout, 340)


def over_stream(facet: Facet, judged: str) -> Plot | None:
    """Accuracy in the middle of tasks, where runs were evaluated there."""
    traces: list[dict[str, Any]] = []
    for place, row in enumerate(facet.rows):
        looks = [r.over_stream for r in row.finished if r.over_stream]
        if looks:
            count = min(map(len, looks))
            values = 100 * np.array([[mean for _, mean in one[:count]] for one in looks])
            traces += _line(row.label, place, [int(step) for step, _ in looks[0][:count]], values, "step %{x}: ")
    layout = {"xaxis": {"title": {"text": "Steps"}}, "yaxis": {"title": {"text": f"Accuracy on {judged} (%)"}}}
    return _plot("curves", "Accuracy over the stream, a line for each method", traces, layout, 340) if traces else None


def _line(label: str, place: int, x: list[int], values: Any, where: str, level: bool = False) -> list[dict[str, Any]]:
    """A mean over seeds with its band; they are hidden together."""
    spreads = [Spread.of(column) for column in values.T.tolist()]
    mean, std = [_number(s.mean) for s in spreads], [_number(s.std) for s in spreads]
    look, group = LOOKS[place], str(place)
    line = {
        "type": "scatter", "mode": "lines" if level else "lines+markers", "name": named(label), "legendgroup": group,
        "x": x, "y": mean, "meta": {"colour": place},
        "line": {"width": 2, "dash": "dot" if level else look.dash},
        "marker": {"symbol": look.symbol, "size": 7},
        "customdata": [_plus_minus(s) for s in std],
        "hovertemplate": f"{_NAME}{where}%{{y:.2f}}%{{customdata}} % (n = {len(values)})<extra></extra>",
    }  # fmt: skip
    low = [None if m is None else round(m - (s or 0), 2) for m, s in zip(mean, std, strict=True)]
    high = [None if m is None else round(m + (s or 0), 2) for m, s in zip(mean, std, strict=True)]
    if not any(std) or None in low:
        return [line]
    band = {
        "type": "scatter", "mode": "lines", "name": named(label), "legendgroup": group, "showlegend": False,
        "hoverinfo": "skip", "x": [*x, *reversed(x)], "y": [*high, *reversed(low)], "fill": "toself",
        "line": {"width": 0}, "meta": {"band": place},
    }  # fmt: skip
    return [band, line]


def final_accuracies(facet: Facet, judged: str) -> Plot:
    """Final accuracy of every seed as a dot, with mean and one standard deviation of each method."""
    traces, names = [], []
    for place, row in enumerate(facet.rows):
        values = [_number(100 * v) for v in row.values("final_accuracy")]
        spread = Spread.of([v for v in values if v is not None])
        seeds = [str(r.settings.seed) for r in row.finished]
        traces.append({
            "type": "scatter", "mode": "markers", "name": named(row.label), "legendgroup": str(place),
            "x": values, "y": [place] * len(values), "customdata": seeds, "meta": {"colour": place},
            "marker": {"size": 8, "opacity": 0.55, "symbol": "circle"},
            "hovertemplate": f"{_NAME}seed %{{customdata}}: %{{x:.2f}} %<extra></extra>",
        })  # fmt: skip
        traces.append({
            "type": "scatter", "mode": "markers", "name": named(row.label), "legendgroup": str(place),
            "x": [_number(spread.mean)], "y": [place], "customdata": [_plus_minus(_number(spread.std))],
            "meta": {"colour": place, "stroke": True},
            "marker": {"size": 15, "symbol": "line-ns", "line": {"width": 2.5}},
            "error_x": {"type": "data", "array": [_number(spread.std) or 0], "thickness": 1.5, "width": 0},
            "hovertemplate": f"{_NAME}mean: %{{x:.2f}}%{{customdata}} % (n = {len(values)})<extra></extra>",
        })  # fmt: skip
        names.append({"text": shown(row.label, 48), "x": 0, "xref": "paper", "xanchor": "left", "y": place,
                      "yshift": 15, "showarrow": False})  # fmt: skip
    layout = {
        "xaxis": {"title": {"text": f"Final accuracy on {judged} (%)"}, "zeroline": False},
        "yaxis": {"range": [len(facet.rows) - 0.4, -0.75], "visible": False, "fixedrange": True},
        "annotations": names, "showlegend": False,
    }  # fmt: skip
    height = max(340, 90 + 46 * len(facet.rows))
    return _plot("dots", "Final accuracy of every seed, a row for each method", traces, layout, height)


def matrix(row: Row) -> Plot:
    """Accuracy on each task after each task, mean over seeds in percent; tasks not learned yet are left blank."""
    values = 100 * np.array([r.accuracy_matrix[1:] for r in row.finished])
    _, stages, tasks = values.shape
    at_once = stages == 1 and tasks > 1
    cells = [[Spread.of(values[:, i, j].tolist()) if j <= i or at_once else None for j in range(tasks)]
             for i in range(stages)]  # fmt: skip
    named = _task_names(row)
    told = [[[_plus_minus(_number(c.std)) if c else "", named[j]] for j, c in enumerate(line)] for line in cells]
    after = "after all tasks" if at_once else "after task %{y}"
    trace = {
        "type": "heatmap", "meta": {"shades": True}, "zmin": 0, "zmax": 100, "xgap": 1, "ygap": 1, "showscale": False,
        "x": list(range(1, tasks + 1)), "y": ["all"] if at_once else list(range(1, stages + 1)),
        "z": [[_number(c.mean) if c else None for c in line] for line in cells], "customdata": told,
        "hovertemplate": f"task %{{x}}%{{customdata[1]}}<br>{after}: %{{z:.2f}}%{{customdata[0]}} % (n = {len(values)})"
        "<extra></extra>",
        "hoverongaps": False,
    } | ({"texttemplate": "%{z:.0f}"} if tasks <= _MOST_NUMBERED else {})  # fmt: skip
    every = 1 if tasks <= 10 else 5
    axis = {
        "tick0": every if every > 1 else 1,
        "dtick": every,
        "showgrid": False,
        "zeroline": False,
        "fixedrange": True,
    }
    layout = {
        "xaxis": axis | {"title": {"text": "Task"}},
        "yaxis": axis | {"title": {"text": "" if at_once else "After task"}, "autorange": "reversed",
                         "type": "category" if at_once else "linear"},
        "showlegend": False,
    }  # fmt: skip
    height = 120 if at_once else 300
    return _plot("matrix", f"Accuracy on each task after each task: {row.label}", [trace], layout, height)


def _task_names(row: Row) -> list[str]:
    """The classes of each task, where results know them and all runs have the same."""
    first = row.finished[0]
    tasks, alike = len(first.accuracy_matrix[0]), all(r.class_names == first.class_names for r in row.finished)
    if not alike or not first.class_names or sum(first.task_classes) != len(first.class_names):
        return [""] * tasks
    ends = np.cumsum(first.task_classes).tolist()
    parts = [first.class_names[end - count : end] for end, count in zip(ends, first.task_classes, strict=True)]
    return [" (" + ", ".join(shown(name, 20) for name in part[:4]) + ", …" * (len(part) > 4) + ")" for part in parts]


def plane(panel: Panel) -> Plot:
    """Features in the plane: old classes as filled circles, new ones as open triangles, class vectors as lines."""
    old = {int(c): bool(o) for c, o in zip(panel.labels, panel.old, strict=True)}
    stride = max(1, -(-len(panel.points) // _MOST_POINTS))
    points, labels = panel.points[::stride], panel.labels[::stride]
    radius = float(np.abs(points).max(initial=1e-9))
    traces: list[dict[str, Any]] = []
    names = []
    for c in sorted(old):
        place = sorted(k for k in old if old[k] == old[c]).index(c)
        name = shown(panel.names[c] if panel.names else str(c), 24)
        own, own_colours = points[labels == c], class_colours(place, old[c])
        traces.append({
            "type": "scatter", "mode": "markers", "name": name, "legendgroup": str(c), "meta": {"own": own_colours},
            "x": [_number(v) for v in own[:, 0]], "y": [_number(v) for v in own[:, 1]],
            "marker": {"symbol": "circle" if old[c] else "triangle-up-open", "size": 5, "opacity": 0.7},
            "hovertemplate": f"class {name.replace('%', '')}, {'old' if old[c] else 'new'}<extra></extra>",
        })  # fmt: skip
        angle = math.atan2(panel.directions[c, 1], panel.directions[c, 0])
        end = [_number(radius * math.cos(angle)), _number(radius * math.sin(angle))]
        traces.append({
            "type": "scatter", "mode": "lines", "name": name, "legendgroup": str(c), "showlegend": False,
            "x": [0, end[0]], "y": [0, end[1]], "line": {"width": 2.2}, "hoverinfo": "skip",
            "meta": {"own": own_colours},
        })  # fmt: skip
        names.append({"text": f"<b>{shown(name, 12)}</b>", "x": _number(1.1 * radius * math.cos(angle)),
                      "y": _number(1.1 * radius * math.sin(angle)), "showarrow": False})  # fmt: skip
    limit = _number(1.25 * radius)
    bare = {"visible": False}
    layout = {"xaxis": bare | {"range": [-limit, limit]} if limit else bare,
              "yaxis": bare | {"range": [-limit, limit], "scaleanchor": "x"} if limit else bare,
              "annotations": names, "showlegend": True}  # fmt: skip
    return _plot("plane", f"Two-dimensional features of the test images: {panel.title}", traces, layout, 400)


def _plot(kind: str, alt: str, traces: list[dict[str, Any]], layout: dict[str, Any], height: int) -> Plot:
    return {"kind": kind, "alt": alt, "data": traces, "layout": layout, "height": height}


def _every(traces: Sequence[dict[str, Any]]) -> int:
    last = max((max(trace["x"]) for trace in traces), default=1)
    return 1 if last <= 12 else 5 if last <= 60 else 10


def _number(value: float) -> float | None:
    """As JSON can hold it, with as many digits as a reader can see."""
    return round(float(value), 3) if math.isfinite(value) else None


def _plus_minus(std: float | None) -> str:
    return "" if std is None else f" ± {std:.2f}"


def of(setting: Setting) -> str:
    """The images behind its numbers, in the few words that an axis has room for."""
    return "held-out training images" if setting.results[0].settings.validation else "test images"
