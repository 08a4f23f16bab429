"""Accuracy figures for the page, as plotly data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from moca.report.comparison import Row
from moca.report.facets import Facet
from moca.report.plotting import BARE, NAME, Plot, Trace, figure, heat, line, named, number, shown
from moca.report.spread import Spread
from moca.report.sweeps import Sweep

_STROKE = 15
"""Length in pixels of the stroke at a mean, of which plotly draws 0.7 above the line; its label is above that."""


def curves(facet: Facet, judged: str) -> Plot:
    """Accuracy over the tasks learned so far: mean over seeds as a line, one standard deviation as a band."""
    traces: list[Trace] = []
    for place, row in enumerate(facet.rows):
        values = 100 * np.array([r.accuracy_over_tasks for r in row.finished])
        tasks = len(row.finished[0].accuracy_matrix[0])
        at_once = values.shape[1] == 1 and tasks > 1
        x = [1, tasks] if at_once else list(range(1, values.shape[1] + 1))
        traces += _over_seeds(row.label, place, x, np.repeat(values, 2, axis=1) if at_once else values, "task", at_once)
    layout = {"xaxis": {"title": {"text": "Tasks learned"}, "dtick": _tick_distance(traces)},
              "yaxis": {"title": {"text": f"Accuracy on {judged} (%)"}}}  # fmt: skip
    return figure("curves", "Accuracy over the tasks learned so far, a line for each method", traces, layout, 340)


def over_stream(facet: Facet, judged: str) -> Plot | None:
    """Accuracy within tasks, of methods that were evaluated there; None if none was."""
    traces: list[Trace] = []
    for place, row in enumerate(facet.rows):
        steps, accuracies = row.over_stream
        if steps:
            traces += _over_seeds(row.label, place, steps, 100 * np.array(accuracies), "step")
    layout = {"xaxis": {"title": {"text": "Steps"}}, "yaxis": {"title": {"text": f"Accuracy on {judged} (%)"}}}
    return figure("curves", "Accuracy over the stream, a line for each method", traces, layout, 340) if traces else None


def _over_seeds(label: str, place: int, x: list[int], values: Any, what: str, level: bool = False) -> list[Trace]:
    spreads = [Spread.of(column) for column in values.T.tolist()]
    mean, std = [number(s.mean) for s in spreads], [number(s.std) for s in spreads]
    hover = f"{what} %{{x}}: %{{y:.2f}}%{{customdata}} % (n = {len(values)})"
    return line(label, place, x, mean, std, [_plus_minus(s) for s in std], hover, level)


def final_accuracies(facet: Facet, judged: str) -> Plot:
    """Final accuracy of every seed as a dot, with mean and one standard deviation of each method."""
    traces, names = [], []
    for place, row in enumerate(facet.rows):
        values = [number(100 * v) for v in row.values("final_accuracy")]
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
            "x": [number(spread.mean)], "y": [place], "customdata": [_plus_minus(number(spread.std))],
            "meta": {"colour": place, "stroke": True},
            "marker": {"size": _STROKE, "symbol": "line-ns", "line": {"width": 2.5}},
            "error_x": {"type": "data", "array": [number(spread.std) or 0], "thickness": 1.5, "width": 0},
            "hovertemplate": f"{NAME}mean: %{{x:.2f}}%{{customdata}} % (n = {len(values)})<extra></extra>",
        })  # fmt: skip
        names.append({"text": shown(row.label, 48), "x": 0, "xref": "paper", "xanchor": "left", "y": place,
                      "yanchor": "bottom", "yshift": _STROKE, "showarrow": False})  # fmt: skip
    layout = {
        "xaxis": {"title": {"text": f"Final accuracy on {judged} (%)"}, "zeroline": False},
        "yaxis": {"range": [len(facet.rows) - 0.4, -0.75], "visible": False, "fixedrange": True},
        "annotations": names, "showlegend": False,
    }  # fmt: skip
    height = max(340, 90 + 52 * len(facet.rows))
    return figure("dots", "Final accuracy of every seed, a row for each method", traces, layout, height)


def sweep(one: Sweep, judged: str) -> Plot:
    """Final accuracy against a setting that was varied, one line per method; their learners as horizontal lines."""
    traces: list[Trace] = []
    ends = [min(line.points[0][0] for line in one.lines), max(line.points[-1][0] for line in one.lines)]
    drawn = [(row.label, ends, [row, row], True) for row in one.levels]
    drawn += [(of.label, [value for value, _ in of.points], [row for _, row in of.points], False) for of in one.lines]
    for place, (label, x, rows, level) in enumerate(drawn):
        spreads = [Spread.of([100 * v for v in row.values("final_accuracy")]) for row in rows]
        mean, std = [number(s.mean) for s in spreads], [number(s.std) for s in spreads]
        details = [f"{_plus_minus(s)} % (n = {len(row.finished)})" for s, row in zip(std, rows, strict=True)]
        at = "" if level else f"{shown(one.name)} %{{x}}: "
        traces += line(label, place, x, mean, std, details, f"{at}%{{y:.2f}}%{{customdata}}", level)
    scale: dict[str, Any] = {"type": "linear"}
    if one.logarithmic:
        ticks = one.ticks
        scale = {"type": "log", "tickmode": "array", "tickvals": [*ticks], "ticktext": [*ticks.values()]}
    layout = {"xaxis": {"title": {"text": shown(one.name)}} | scale,
              "yaxis": {"title": {"text": f"Final accuracy on {judged} (%)"}}}  # fmt: skip
    return figure("curves", f"Final accuracy against {one.name}, a line for each method", traces, layout, 340)


def matrix(row: Row) -> Plot:
    """Accuracy on each task after each task, mean over seeds in percent; tasks not learned yet are left blank."""
    values = 100 * np.array([r.accuracy_matrix[1:] for r in row.finished])
    _, stages, tasks = values.shape
    at_once = stages == 1 and tasks > 1
    cells = [[Spread.of(values[:, i, j].tolist()) if j <= i or at_once else None for j in range(tasks)]
             for i in range(stages)]  # fmt: skip
    names = _task_names(row)
    details = [[[_plus_minus(number(c.std)) if c else "", names[j]] for j, c in enumerate(line)] for line in cells]
    after = "after all tasks" if at_once else "after task %{y}"
    trace = heat(
        [[number(c.mean) if c else None for c in line] for line in cells], details, (0, 100),
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


def _task_names(row: Row) -> list[str]:
    """The class names of each task in parentheses; empty unless results have them and they agree in all runs."""
    first = row.finished[0]
    tasks, alike = len(first.accuracy_matrix[0]), all(r.class_names == first.class_names for r in row.finished)
    if not alike or not first.class_names or sum(first.task_classes) != len(first.class_names):
        return [""] * tasks
    ends = np.cumsum(first.task_classes).tolist()
    parts = [first.class_names[end - count : end] for end, count in zip(ends, first.task_classes, strict=True)]
    return [" (" + ", ".join(shown(name, 20) for name in part[:4]) + ", …" * (len(part) > 4) + ")" for part in parts]


def _tick_distance(traces: Sequence[Trace]) -> int:
    last = max((max(trace["x"]) for trace in traces), default=1)
    return 1 if last <= 12 else 5 if last <= 60 else 10


def _plus_minus(std: float | None) -> str:
    return "" if std is None else f" ± {std:.2f}"
