"""Metrics of continual learning, all computed from the accuracy matrix.

R[i][j] is the accuracy on task j after learning i tasks; row 0 is the untrained model. In mean accuracies, tasks are
weighted by their number of classes: with class-balanced test sets, that is the accuracy on all test samples. In
forgetting and transfer, which are defined per task, all tasks have the same weight.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Matrix = Sequence[Sequence[float]]


@dataclass(frozen=True)
class Summary:
    """The usual metrics, from 0 to 1; NaN if a metric is undefined, such as the forgetting of a single task."""

    final_accuracy: float
    """Mean accuracy over all tasks at the end."""
    average_incremental_accuracy: float
    """Mean over stages of the mean accuracy over the tasks learned so far."""
    forgetting: float
    """How far the accuracy on each earlier task has fallen from its best since it was learned, on average."""
    bwt: float
    """Backward transfer: how much the accuracy on each earlier task has changed since it was learned, on average."""
    fwt: float
    """Forward transfer: accuracy on each task just before learning it, above the untrained model's, on average."""


def summarise(matrix: Matrix, classes: Sequence[int] = ()) -> Summary:
    """All metrics of an accuracy matrix; `classes` is the number of classes of each task."""
    return Summary(
        final_accuracy(matrix, classes),
        average_incremental_accuracy(matrix, classes),
        forgetting(matrix),
        bwt(matrix),
        fwt(matrix),
    )


def accuracy_over_tasks(matrix: Matrix, classes: Sequence[int] = ()) -> list[float]:
    """Mean accuracy over the tasks learned so far, after each of them."""
    return [_mean(row[:learned], classes) for learned, row in _learned_rows(matrix)]


def final_accuracy(matrix: Matrix, classes: Sequence[int] = ()) -> float:
    """Mean accuracy over all tasks at the end."""
    return _mean(matrix[-1], classes)


def average_incremental_accuracy(matrix: Matrix, classes: Sequence[int] = ()) -> float:
    """Mean over stages of the mean accuracy over the tasks learned so far."""
    return float(np.mean(accuracy_over_tasks(matrix, classes)))


def _mean(accuracies: Sequence[float], classes: Sequence[int]) -> float:
    """The mean over tasks, weighted by their number of classes."""
    return float(np.average(accuracies, weights=classes[: len(accuracies)] or None))


def forgetting(matrix: Matrix) -> float:
    """How far the accuracy on each earlier task has fallen from its best since it was learned, on average."""
    return _mean_over_tasks(matrix, lambda r, tasks: [r[j + 1 : -1, j].max() - r[-1, j] for j in range(tasks - 1)])


def bwt(matrix: Matrix) -> float:
    """Backward transfer: how much the accuracy on each earlier task has changed since it was learned, on average."""
    return _mean_over_tasks(matrix, lambda r, tasks: [r[-1, j] - r[j + 1, j] for j in range(tasks - 1)])


def fwt(matrix: Matrix) -> float:
    """Forward transfer: accuracy on each task just before learning it, above the untrained model's, on average."""
    return _mean_over_tasks(matrix, lambda r, tasks: [r[j, j] - r[0, j] for j in range(1, tasks)])


def _mean_over_tasks(matrix: Matrix, changes: Callable[[NDArray[Any], int], list[float]]) -> float:
    """The mean of `changes`, one value for each task but one; NaN unless several tasks were learned one by one."""
    r = np.asarray(matrix)
    one_by_one = len(r) == r.shape[1] + 1 and r.shape[1] > 1
    return float(np.mean(changes(r, r.shape[1]))) if one_by_one else float("nan")


def _learned_rows(matrix: Matrix) -> list[tuple[int, Sequence[float]]]:
    """The row of each stage, with the number of tasks learned by then; joint training learns all in one stage."""
    tasks, stages = len(matrix[0]), len(matrix) - 1
    return [(tasks if stages == 1 else i, matrix[i]) for i in range(1, stages + 1)]
