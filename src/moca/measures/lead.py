"""The lead of the last task's classes: accuracy with increasing logit adjustment of their scores."""

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from moca.measures.analysis import Analysis, Axis, Plot

MULTIPLES = [step / 20 for step in range(-60, 121)]
"""The multiples of the lead that are subtracted from the scores of new classes."""
ADJUST = "Logit adjustment (adjust)"
"""Their axis in a figure."""
MARKED = "Dashed: the value that a run used, or 1 if it used none."
"""Explains the mark in such a figure."""


ACCURACY = "Accuracy, %"
"""The other axis."""
ANALYSES = ("lead_of_new_classes", "lead_over_tasks")
"""The analyses with such a figure."""


def renamed(analysis: Analysis) -> Analysis:
    """An analysis over the adjustment with today's axes: older versions of moca wrote shares, and another name."""

    def plot(stored: Plot) -> Plot:
        if stored.x.name == "Adjustment (times the lead)":
            stored = replace(stored, x=replace(stored.x, name=ADJUST))
        if stored.y.name == "Accuracy":
            percent = {
                name: [None if share is None else 100 * share for share in shares]
                for name, shares in stored.series.items()
            }
            stored = replace(stored, y=Axis(ACCURACY), series=percent)
        return stored

    return replace(analysis, plots={name: plot(stored) for name, stored in analysis.plots.items()})


class Adjusted(NamedTuple):
    """Accuracies after logit adjustment, one for each multiple of the lead: on all, old and new classes."""

    all: list[float]
    old: list[float]
    new: list[float]


def adjusted(scores: Tensor, labels: Tensor, lead: Tensor, multiples: list[float]) -> Adjusted:
    """Accuracies with each multiple of the lead subtracted from `scores`, which have one row per sample and are not
    adjusted yet; `lead` is 0 for old classes."""
    right = torch.stack([(scores - multiple * lead).argmax(1) == labels for multiple in multiples]).double()
    new = lead[labels] > 0
    return Adjusted(*(right[:, rows].mean(1).tolist() for rows in (new | ~new, ~new, new)))


def summary(accuracies: list[float]) -> dict[str, float | None]:
    """The numbers of a curve over all multiples to print; of several best multiples, the nearest to 0."""
    best = max(range(len(MULTIPLES)), key=lambda place: (accuracies[place], -abs(MULTIPLES[place])))
    places = {"as trained": MULTIPLES.index(0), "adjust=1": MULTIPLES.index(1), "at best": best}
    numbers: dict[str, float | None] = {f"accuracy, {name} (%)": 100 * accuracies[at] for name, at in places.items()}
    return numbers | {"best adjust": MULTIPLES[best]}
