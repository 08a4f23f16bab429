"""The figures of the page, as data for plotly.

A trace names the place of its colour (`meta`); the page's script paints it for a light or a dark page. Words of the
user's own are escaped, since plotly reads some HTML in them.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from moca.report.comparison import Row
from moca.report.facets import Facet
from moca.report.labels import folded, plain
from moca.report.palette import LOOKS
from moca.report.spread import Spread
from moca.report.sweeps import Sweep

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


def curves(facet: Facet, judged: str) -> Plot:
    """Accuracy over the tasks learned so far: mean over seeds as a line, one standard deviation as a band."""
    traces: list[Trace] = []
    for place, row in enumerate(facet.rows):
        values = 100 * np.array([r.accuracy_over_tasks for r in row.finished])
        tasks = len(row.finished[0].accuracy_matrix[0])
        at_once = values.shape[1] == 1 and tasks > 1
        x = [1, tasks] if at_once else list(range(1, values.shape[1] + 1))
        traces += _over_seeds(row.label, place, x, np.repeat(values, 2, axis=1) if at_once else values, "task", at_once)
    layout = {"xaxis": {"title": {"text": "Tasks learned"}, "dtick": _every(traces)},
              "yaxis": {"title": {"text": f"Accuracy on {judged} (%)"}}}  # fmt: skip
    return figure("curves", "Accuracy over the tasks learned so far, a line for each method", traces, layout, 340)


def over_stream(facet: Facet, judged: str) -> Plot | None:
    """Accuracy in the middle of tasks, where runs were evaluated there."""
    traces: list[Trace] = []
    for place, row in enumerate(facet.rows):
        looks = [r.over_stream for r in row.finished if r.over_stream]
        if looks:
            count = min(map(len, looks))
            values = 100 * np.array([[mean for _, mean in one[:count]] for one in looks])
            traces += _over_seeds(row.label, place, [int(step) for step, _ in looks[0][:count]], values, "step")
    layout = {"xaxis": {"title": {"text": "Steps"}}, "yaxis": {"title": {"text": f"Accuracy on {judged} (%)"}}}
    return figure("curves", "Accuracy over the stream, a line for each method", traces, layout, 340) if traces else None


def _over_seeds(label: str, place: int, x: list[int], values: Any, what: str, level: bool = False) -> list[Trace]:
    spreads = [Spread.of(column) for column in values.T.tolist()]
    mean, std = [_number(s.mean) for s in spreads], [_number(s.std) for s in spreads]
    hover = f"{what} %{{x}}: %{{y:.2f}}%{{customdata}} % (n = {len(values)})"
    return line(label, place, x, mean, std, [_plus_minus(s) for s in std], hover, level)


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
            "hovertemplate": f"{NAME}seed %{{customdata}}: %{{x:.2f}} %<extra></extra>",
        })  # fmt: skip
        traces.append({
            "type": "scatter", "mode": "markers", "name": named(row.label), "legendgroup": str(place),
            "x": [_number(spread.mean)], "y": [place], "customdata": [_plus_minus(_number(spread.std))],
            "meta": {"colour": place, "stroke": True},
            "marker": {"size": 15, "symbol": "line-ns", "line": {"width": 2.5}},
            "error_x": {"type": "data", "array": [_number(spread.std) or 0], "thickness": 1.5, "width": 0},
            "hovertemplate": f"{NAME}mean: %{{x:.2f}}%{{customdata}} % (n = {len(values)})<extra></extra>",
        })  # fmt: skip
        names.append({"text": shown(row.label, 48), "x": 0, "xref": "paper", "xanchor": "left", "y": place,
                      "yshift": 15, "showarrow": False})  # fmt: skip
    layout = {
        "xaxis": {"title": {"text": f"Final accuracy on {judged} (%)"}, "zeroline": False},
        "yaxis": {"range": [len(facet.rows) - 0.4, -0.75], "visible": False, "fixedrange": True},
        "annotations": names, "showlegend": False,
    }  # fmt: skip
    height = max(340, 90 + 46 * len(facet.rows))
    return figure("dots", "Final accuracy of every seed, a row for each method", traces, layout, height)


def sweep(one: Sweep, judged: str) -> Plot:
    """Final accuracy against a number that methods were tried with, a line for each; their learners as level lines."""
    traces: list[Trace] = []
    ends = [min(line.points[0][0] for line in one.lines), max(line.points[-1][0] for line in one.lines)]
    drawn = [(row.label, ends, [row, row], True) for row in one.levels]
    drawn += [(of.label, [value for value, _ in of.points], [row for _, row in of.points], False) for of in one.lines]
    for place, (label, x, rows, level) in enumerate(drawn):
        spreads = [Spread.of([100 * v for v in row.values("final_accuracy")]) for row in rows]
        mean, std = [_number(s.mean) for s in spreads], [_number(s.std) for s in spreads]
        told = [f"{_plus_minus(s)} % (n = {len(row.finished)})" for s, row in zip(std, rows, strict=True)]
        at = "" if level else f"{shown(one.name)} %{{x}}: "
        traces += line(label, place, x, mean, std, told, f"{at}%{{y:.2f}}%{{customdata}}", level)
    layout = {"xaxis": {"title": {"text": shown(one.name)}, "type": "log" if one.logarithmic else "linear"},
              "yaxis": {"title": {"text": f"Final accuracy on {judged} (%)"}}}  # fmt: skip
    return figure("curves", f"Final accuracy against {one.name}, a line for each method", traces, layout, 340)


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
    trace = heat(
        [[_number(c.mean) if c else None for c in line] for line in cells], told, (0, 100),
        f"task %{{x}}%{{customdata[1]}}<br>{after}: %{{z:.2f}}%{{customdata[0]}} % (n = {len(values)})", "%{z:.0f}",
    ) | {
        "x": list(range(1, tasks + 1)), "y": ["all"] if at_once else list(range(1, stages + 1)), "showscale": False,
    }  # fmt: skip
    every = 1 if tasks <= 10 else 5
    axis = {"tick0": every, "dtick": every, **BARE}
    layout = {
        "xaxis": axis | {"title": {"text": "Task"}},
        "yaxis": axis | {"title": {"text": "" if at_once else "After task"}, "autorange": "reversed",
                         "type": "category" if at_once else "linear"},
        "showlegend": False,
    }  # fmt: skip
    height = 120 if at_once else 300
    return figure("matrix", f"Accuracy on each task after each task: {row.label}", [trace], layout, height)


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


def _task_names(row: Row) -> list[str]:
    """The classes of each task, where results know them and all runs have the same."""
    first = row.finished[0]
    tasks, alike = len(first.accuracy_matrix[0]), all(r.class_names == first.class_names for r in row.finished)
    if not alike or not first.class_names or sum(first.task_classes) != len(first.class_names):
        return [""] * tasks
    ends = np.cumsum(first.task_classes).tolist()
    parts = [first.class_names[end - count : end] for end, count in zip(ends, first.task_classes, strict=True)]
    return [" (" + ", ".join(shown(name, 20) for name in part[:4]) + ", …" * (len(part) > 4) + ")" for part in parts]


def plane(points: Mapping[str, Any], colours: Mapping[int, tuple[str, str]], alt: str) -> Plot:
    """Features in the plane: old classes as filled circles, new ones as open triangles, class vectors as lines."""
    old = dict(zip(points["class"], points["old"], strict=True))
    x, y, labels = (np.array(points[name]) for name in ("x", "y", "class"))
    # A radius that a few far ones do not decide.
    radius = float(np.quantile(np.hypot(x, y), 0.995)) or 1.0 if len(x) else 1.0
    traces: list[Trace] = []
    names = []
    for c in sorted(old):
        called = str(points["names"][c]) if c < len(points.get("names", ())) else str(c)
        name = shown(called, 24)
        both = {"type": "scatter", "name": name, "legendgroup": str(c), "meta": {"own": colours[c]}}
        traces.append(both | {
            "mode": "markers",
            "x": [_number(v) for v in x[labels == c]], "y": [_number(v) for v in y[labels == c]],
            "marker": {"symbol": "circle" if old[c] else "triangle-up-open", "size": 5, "opacity": 0.7},
            "hovertemplate": f"class {name.replace('%', '')}, {'old' if old[c] else 'new'}<extra></extra>",
        })  # fmt: skip
        if c >= len(points["vectors"]):
            continue
        angle = math.atan2(*reversed(points["vectors"][c]))
        end = np.array([math.cos(angle), math.sin(angle)]) * radius
        traces.append(both | {
            "mode": "lines", "showlegend": False, "x": [0, _number(end[0])], "y": [0, _number(end[1])],
            "line": {"width": 2.2}, "hoverinfo": "skip",
        })  # fmt: skip
        names.append({"text": f"<b>{shown(called, 12)}</b>", "x": _number(1.1 * end[0]), "y": _number(1.1 * end[1]),
                      "showarrow": False})  # fmt: skip
    bare = {"visible": False, "range": [-1.25 * radius, 1.25 * radius]}
    layout = {"xaxis": bare, "yaxis": bare | {"scaleanchor": "x"}, "annotations": names, "showlegend": True}
    return figure("plane", alt, traces, layout, 400)


def figure(kind: str, alt: str, traces: list[Trace], layout: dict[str, Any], height: int) -> Plot:
    """What the page's script draws."""
    return {"kind": kind, "alt": alt, "data": traces, "layout": layout, "height": height}


def _every(traces: Sequence[Trace]) -> int:
    last = max((max(trace["x"]) for trace in traces), default=1)
    return 1 if last <= 12 else 5 if last <= 60 else 10


def _number(value: float) -> float | None:
    """As JSON can hold it, with as many digits as a reader can see."""
    return round(float(value), 3) if math.isfinite(value) else None


def significant(value: float) -> float:
    """With as many digits as a figure of any scale can show."""
    return float(f"{value:.5g}")


def _plus_minus(std: float | None) -> str:
    return "" if std is None else f" ± {std:.2f}"
