"""The angles by which the perturbation moved features while training."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from moca import sphere
from moca.engine.watch import StepRecord, TaskRecord
from moca.measures.analysis import Analysis, Axis, Plot
from moca.measures.angles import histogram
from moca.measures.record.base import Recording

if TYPE_CHECKING:
    from moca.engine.run import Running

_BINS = 90


class Moved(Recording):
    """Angles between replayed old-class features before and after the perturbation."""

    leads_to, about = "perturbation_angle", "angle of the perturbation"
    wants = ("replay.features", "replay.moved", "replay.old")
    looks = "through"
    remembers = ("counts", "degrees", "course")

    def __init__(self, run: Running) -> None:
        super().__init__(run)
        self.counts, self.degrees = torch.zeros(_BINS, dtype=torch.int64), 0.0
        self.course: list[list[float]] = []

    def step(self, record: StepRecord) -> None:
        """Count the angles of a step."""
        moved, old = record.outputs.get("replay.moved"), record.outputs.get("replay.old")
        if moved is None or old is None:
            return
        angles: Tensor = sphere.angle(record.outputs["replay.features"], moved)[old].cpu()
        if len(angles):
            self.counts = self.counts + histogram(angles, _BINS)
            ordered = angles.double().rad2deg().sort().values.tolist()
            self.degrees += math.fsum(ordered)
            low, middle, high = (ordered[int(share * (len(ordered) - 1))] for share in (0.1, 0.5, 0.9))
            self.course.append([record.step, low, middle, high])

    def task(self, record: TaskRecord) -> None:
        """Store the distribution of the task; the first task has none."""
        if self.course:
            found = {"counts": self.counts, "degrees": self.degrees, "course": self.course}
            self.tasks.append({"learned": record.learned, **found})
        self.counts, self.degrees, self.course = torch.zeros(_BINS, dtype=torch.int64), 0.0, []

    def analysis(self) -> Analysis | None:
        """The distribution over all tasks, and its course over the steps."""
        if not self.run.settings.perturb.make().moves or not self.tasks:
            return None
        total = torch.stack([task["counts"] for task in self.tasks]).sum(0).double()
        degrees = sum(task["degrees"] for task in self.tasks)
        centres = (torch.arange(_BINS).double() + 0.5) * 180 / _BINS
        steps, low, middle, high = zip(*(line for task in self.tasks for line in task["course"]), strict=True)
        x, shares = Axis("Angle (degrees)", centres.tolist()), {"features": (total / total.sum()).tolist()}
        course = {"median": list(middle), "10 % are below": list(low), "90 % are below": list(high)}
        return Analysis(
            "Angle of the perturbation",
            "By how much replayed old-class features were moved on their sphere.",
            {"mean angle (degrees)": degrees / total.sum().item(), "median at the end (degrees)": middle[-1]},
            {
                "perturbation_angle": Plot("lines", x, Axis("Share of features"), shares, trim=True),
                "perturbation_angle_over_steps": Plot(
                    "lines", Axis("Step", list(steps)), Axis("Angle (degrees)"), course
                ),
            },
            "recorded",
            {f"counts in bins of 2 degrees, task {task['learned']}": task["counts"].numpy() for task in self.tasks},
        )
