"""Whether a saved result is whole. Works without torch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def intact(saved: Mapping[str, Any]) -> bool:
    """Whether the numbers of result.json belong together: both matrices have a row for the untrained model and one for
    each task (joint training has one for all), and their last row has the saved final accuracy.

    A run that diverged has no numbers to compare.
    """
    if saved.get("status") != "finished":
        return saved.get("status") == "diverged"
    try:
        matrix, task_il = saved["accuracy_matrix"], saved["task_il_matrix"]
        classes = saved.get("task_classes") or [1] * len(matrix[-1])  # results of older versions have none
        shaped = len(matrix) == len(task_il) in (2, len(classes) + 1) and all(
            len(row) == len(classes) for row in (*matrix, *task_il)
        )
        every = [value for rows in (matrix, task_il, saved.get("over_stream", ())) for row in rows for value in row]
        final = math.fsum(map(math.prod, zip(matrix[-1], classes, strict=True))) / math.fsum(classes)
        return shaped and math.isfinite(math.fsum(every)) and math.isclose(final, saved["final_accuracy"], abs_tol=1e-9)
    except (KeyError, TypeError, ValueError, IndexError, ZeroDivisionError):
        return False
