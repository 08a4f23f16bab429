"""How far the classes of the last task lead: accuracy while more and more is taken from their scores."""

from typing import NamedTuple

import torch
from torch import Tensor

MULTIPLES = [step / 20 for step in range(-60, 121)]
"""Of the lead, that are taken from new classes."""
MARKED = "Dashed: what a run took, or 1 where it took nothing."
"""What the mark of such a figure is."""


class Adjusted(NamedTuple):
    """Shares that are right after logit adjustment, a number for each multiple of the lead that was taken."""

    all: list[float]
    old: list[float]
    new: list[float]


def adjusted(scores: Tensor, labels: Tensor, lead: Tensor, multiples: list[float]) -> Adjusted:
    """`scores` of every class, a row a sample, of which nothing was taken yet; `lead` is 0 for old classes."""
    right = torch.stack([(scores - multiple * lead).argmax(1) == labels for multiple in multiples]).double()
    new = lead[labels] > 0
    return Adjusted(*(right[:, rows].mean(1).tolist() for rows in (new | ~new, ~new, new)))


def summary(accuracies: list[float]) -> dict[str, float | None]:
    """The numbers of a curve over all multiples that are worth printing; of several best ones, the nearest to 0."""
    best = max(range(len(MULTIPLES)), key=lambda place: (accuracies[place], -abs(MULTIPLES[place])))
    places = {"as trained": MULTIPLES.index(0), "adjust=1": MULTIPLES.index(1), "at best": best}
    numbers: dict[str, float | None] = {f"accuracy, {name} (%)": 100 * accuracies[at] for name, at in places.items()}
    return numbers | {"best adjust": MULTIPLES[best]}
