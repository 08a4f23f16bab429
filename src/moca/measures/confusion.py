"""Confusion matrices of classes and tasks, and forgetting by class."""

from collections.abc import Sequence

import torch
from torch import Tensor

OVER_IMAGES = "The accuracy on all test images is the mean over images; a run's final accuracy is the mean over tasks."


def confusion(predicted: Tensor, labels: Tensor, classes: int) -> Tensor:
    """The confusion matrix: entry (a, b) counts the samples of class a that were predicted as class b."""
    return torch.bincount(labels * classes + predicted, minlength=classes * classes).view(classes, classes)


def by_task(counts: Tensor, tasks: Sequence[Sequence[int]]) -> Tensor:
    """The confusion matrix of tasks: the share of the samples of task a that were predicted as a class of task b."""
    blocks = torch.stack([torch.stack([counts[list(a)][:, list(b)].sum() for b in tasks]) for a in tasks])
    samples = torch.stack([counts[list(a)].sum() for a in tasks]).clamp_min(1)
    return blocks.double() / samples.unsqueeze(1)


def forgetting_by_class(stages: Sequence[Sequence[float | None]], came: Sequence[int]) -> list[float | None]:
    """How far the accuracy on each class has fallen from its best after an earlier task, since it first appeared.

    `stages` are the accuracies by class after each task; `came` is the task in which each class first appeared, counted
    from 0. None for classes of the last task and classes without test samples.
    """
    fallen: list[float | None] = []
    for c, first in enumerate(came):
        known = [value for stage in stages[first:] if (value := stage[c]) is not None] if first >= 0 else []
        fallen.append(max(known[:-1]) - known[-1] if len(known) > 1 else None)
    return fallen
