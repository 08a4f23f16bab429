"""Angles between the classifiers of tasks (the paper's Fig. 9)."""

from collections.abc import Sequence

import torch
from torch import Tensor

from moca import sphere


def angles_between_tasks(vectors: Tensor, tasks: Sequence[Sequence[int]]) -> Tensor:
    """A matrix whose entry (a, b) is the mean angle in degrees between class vectors of task a and of task b.

    Within a task, the mean is over pairs of different classes; NaN if it has only one class.
    """
    unit = sphere.project(vectors.detach().double())
    angles = (unit @ unit.T).clamp(-1, 1).arccos().rad2deg()
    other = ~torch.eye(len(unit), dtype=torch.bool, device=unit.device)
    means = [
        [angles[list(a)][:, list(b)][other[list(a)][:, list(b)]].mean() for b in tasks]  # NaN if there is no pair
        for a in tasks
    ]
    return torch.stack([torch.stack(row) for row in means])
