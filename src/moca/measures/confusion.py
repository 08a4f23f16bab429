"""Which classes are taken for which, and how much of each was forgotten."""

from collections.abc import Sequence

import torch
from torch import Tensor


def confusion(predicted: Tensor, labels: Tensor, classes: int) -> Tensor:
    """Counts: entry (a, b) are the samples of class a that were taken for class b."""
    return torch.bincount(labels * classes + predicted, minlength=classes * classes).view(classes, classes)


def by_task(counts: Tensor, tasks: Sequence[Sequence[int]]) -> Tensor:
    """The confusion of tasks in shares: of the samples of task a, those taken for a class of task b."""
    blocks = torch.stack([torch.stack([counts[list(a)][:, list(b)].sum() for b in tasks]) for a in tasks])
    samples = torch.stack([counts[list(a)].sum() for a in tasks]).clamp_min(1)
    return blocks.double() / samples.unsqueeze(1)


def forgetting_by_class(stages: Sequence[Sequence[float | None]], came: Sequence[int]) -> list[float | None]:
    """How far each class has fallen from the best accuracy that it had after an earlier task, once it had come.

    `stages` are the accuracies by class after each task, `came` the task in which each class came first, both from 0
    on. Classes that came in the last task, or have no test samples, have none.
    """
    fallen: list[float | None] = []
    for c, first in enumerate(came):
        known = [value for stage in stages[first:] if (value := stage[c]) is not None] if first >= 0 else []
        fallen.append(max(known[:-1]) - known[-1] if len(known) > 1 else None)
    return fallen
