"""Accuracy figures for the page, as plotly data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from moca.report.facets import Facet
from moca.report.labels import rows_of, wrapped
from moca.report.methods import Row
from moca.report.plotting import BARE, NAME, Plot, Trace, figure, heat, line, named, number, shown
from moca.report.spread import Spread
from moca.report.sweeps import Sweep

_ROW, _LINE = 52, 17
"""Height in pixels of a method's row, and of each further line of its label."""
_STROKE = 15
"""Length in pixels of the stroke at a mean, of which plotly draws 0.7 above the line; its label is above that."""


def curves(facet: Facet, judged: str) -> Plot:
    """Accuracy over the tasks learned so far: mean over seeds as a line, one standard deviation as a band."""
    traces: list[Trace] = []
    for place, row in enumerate(facet.rows):
        spreads = row.over_tasks()
        x, y = ([1, row.tasks], spreads * 2) if row.at_once else (range(1, row.tasks + 1), spreads)
        traces += _over_seeds(row.label, place, x, y, "task %{x}: ", row.at_once)
    layout = {"xaxis": {"title": {"text": "Tasks learned"}, "dtick": _tick_distance(traces)},
              "yaxis": {"title": {"text": f"Accuracy on {judged} (%)"}}}  # fmt: skip
    return figure("curves", "Accuracy over the tasks learned so far, a line for each method", traces, layout, 340)


def over_stream(facet: Facet, judged: str) -> Plot | None:
    """Accuracy within tasks, of methods that were evaluated there; None if none was."""
    traces: list[Trace] = []
    for place, row in enumerate(facet.rows):
        steps, spreads = row.over_stream()
        if steps:
            traces += _over_seeds(row.label, place, steps, spreads, "step %{x}: ")
    layout = {"xaxis": {"title": {"text": "Steps"}}, "yaxis": {"title": {"text": f"Accuracy on {judged} (%)"}}}
    return figure("curves", "Accuracy over the stream, a line for each method", traces, layout, 340) if traces else None


def _over_seeds(
    label: str, place: int, x: Sequence[float], spreads: Sequence[Spread], at: str, level: bool = False
) -> list[Trace]:
    """A line of shares, in percent; `at` says in the hover text where a point is."""
    mean, std = [number(100 * s.mean) for s in spreads], [number(100 * s.std) for s in spreads]
    return line(label, place, x, mean, std, [_details(s) for s in spreads], f"{at}%{{y:.2f}}%{{customdata}}", level)


def final_accuracies(facet: Facet, judged: str) -> Plot:
    """Final accuracy of every seed as a dot, with mean and one standard deviation of each method."""
    traces, names = [], []
    labels = [wrapped(row.label, 48) for row in facet.rows]
    at = rows_of(labels, _LINE / _ROW)
    for place, (row, label, y) in enumerate(zip(facet.rows, labels, at, strict=True)):
        values, spread = row.values("final_accuracy"), row.spread("final_accuracy")
        seeds = [str(r.settings.seed) for r in row.finished]
        traces.append({
            "type": "scatter", "mode": "markers", "name": named(row.label), "legendgroup": str(place),
            "x": [number(100 * v) for v in values], "y": [number(y)] * len(values), "customdata": seeds,
            "meta": {"colour": place}, "marker": {"size": 8, "opacity": 0.55, "symbol": "circle"},
            "hovertemplate": f"{NAME}seed %{{customdata}}: %{{x:.2f}} %<extra></extra>",
        })  # fmt: skip
        traces.append({
            "type": "scatter", "mode": "markers", "name": named(row.label), "legendgroup": str(place),
            "x": [number(100 * spread.mean)], "y": [number(y)], "customdata": [_details(spread)],
            "meta": {"colour": place, "stroke": True},
            "marker": {"size": _STROKE, "symbol": "line-ns", "line": {"width": 2.5}},
            "error_x": {"type": "data", "array": [number(100 * spread.std) or 0], "thickness": 1.5, "width": 0},
            "hovertemplate": f"{NAME}mean: %{{x:.2f}}%{{customdata}}<extra></extra>",
        })  # fmt: skip
        names.append({"text": "<br>".join(map(shown, label)), "x": 0, "xref": "paper", "xanchor": "left",
                      "align": "left", "y": number(y), "yanchor": "bottom", "yshift": _STROKE,
                      "showarrow": False})  # fmt: skip
    layout = {
        "xaxis": {"title": {"text": f"Final accuracy on {judged} (%)"}, "zeroline": False},
        "yaxis": {"range": [at[-1] + 0.6, -0.75], "visible": False, "fixedrange": True},
        "annotations": names, "showlegend": False,
    }  # fmt: skip
    height = max(340, 90 + round(_ROW * (at[-1] + 1)))
    return figure("dots", "Final accuracy of every seed, a row for each method", traces, layout, height)


def sweep(one: Sweep, judged: str) -> Plot:
    """Final accuracy against a setting that was varied, one line per method; their learners as horizontal lines."""
    traces: list[Trace] = []
    ends = [min(line.points[0][0] for line in one.lines), max(line.points[-1][0] for line in one.lines)]
    drawn = [(row.label, ends, [row, row], True) for row in one.levels]
    drawn += [(str(of.name), [x for x, _ in of.points], [row for _, row in of.points], False) for of in one.lines]
    for place, (label, x, rows, level) in zip([place for of in one.colours for place in of], drawn, strict=True):
        spreads = [row.spread("final_accuracy") for row in rows]
        traces += _over_seeds(label, place, x, spreads, "" if level else f"{shown(one.name)} %{{x}}: ", level)
    scale: dict[str, Any] = {"type": "linear"}
    if one.logarithmic:
        ticks = one.ticks
        scale = {"type": "log", "tickmode": "array", "tickvals": [*ticks], "ticktext": [*ticks.values()]}
    layout = {"xaxis": {"title": {"text": shown(one.axis)}} | scale,
              "yaxis": {"title": {"text": f"Final accuracy on {judged} (%)"}}}  # fmt: skip
    return figure("curves", f"Final accuracy against {one.name}, a line for each method", traces, layout, 340)


def matrix(row: Row) -> Plot:
    """Accuracy on each task after each task, mean over seeds in percent; tasks not learned yet are left blank."""
    cells, names, tasks, at_once = row.matrix(), _task_names(row), row.tasks, row.at_once
    details = [[[_details(c) if c else "", name] for c, name in zip(line, names, strict=True)] for line in cells]
    after = "after all tasks" if at_once else "after task %{y}"
    trace = heat(
        [[number(100 * c.mean) if c else None for c in line] for line in cells], details, (0, 100),
        f"task %{{x}}%{{customdata[1]}}<br>{after}: %{{z:.2f}}%{{customdata[0]}}", "%{z:.0f}",
    ) | {
        "x": list(range(1, tasks + 1)), "y": ["all"] if at_once else list(range(1, tasks + 1)), "showscale": False,
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


def _task_names(row: Row) -> list[str]:
    """The class names of each task in parentheses; empty unless results have them and they agree in all runs."""
    first = row.finished[0]
    alike = all(r.class_names == first.class_names for r in row.finished)
    if not alike or not first.class_names or sum(first.task_classes) != len(first.class_names):
        return [""] * row.tasks
    ends = np.cumsum(first.task_classes).tolist()
    parts = [first.class_names[end - count : end] for end, count in zip(ends, first.task_classes, strict=True)]
    return [" (" + ", ".join(shown(name, 20) for name in part[:4]) + ", …" * (len(part) > 4) + ")" for part in parts]


def _tick_distance(traces: Sequence[Trace]) -> int:
    last = max((max(trace["x"]) for trace in traces), default=1)
    return 1 if last <= 12 else 5 if last <= 60 else 10


def _details(spread: Spread) -> str:
    """What the hover text adds to a mean, a share in percent: its standard deviation and the number of seeds."""
    return ("" if math.isnan(spread.std) else f" ± {100 * spread.std:.2f}") + f" % (n = {spread.n})"
