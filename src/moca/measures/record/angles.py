"""Intra-class angle deviation of old and new classes in training and on test images, after every task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from moca.engine.evaluate import in_evaluation
from moca.engine.watch import StepRecord, TaskRecord
from moca.measures.analysis import Analysis, Axis, Plot, listed, numbered
from moca.measures.angles import angle_deviation, mean_over
from moca.measures.record.base import Recording, of_classes, replayed_as_seen

if TYPE_CHECKING:
    from moca.engine.run import Running

_TEST_IMAGES = 20
"""Test images per class after every task; `moca analyse` uses all of them for the final model."""
_WORDS = {"trained": "training", "tested": "test"}


class Angles(Recording):
    """Angle deviation by class, of features in a task's last epoch (replayed ones as perturbed) and of test images."""

    leads_to, about = "angle_deviation", "angle deviation in training"
    wants = ("new.features", "new.y", "replay.features", "replay.moved", "replay.y")
    remembers = ("features", "labels")

    def __init__(self, run: Running) -> None:
        super().__init__(run)
        self.features: list[Tensor] = []
        self.labels: list[Tensor] = []

    def step(self, record: StepRecord) -> None:
        """Collect the features of a step."""
        outputs, several = record.outputs, self.run.trainer.learning.model.outputs
        for rows, y in (
            (outputs.get("new.features"), outputs.get("new.y")),
            (replayed_as_seen(outputs), outputs.get("replay.y")),
        ):
            if rows is not None and y is not None and len(rows) == len(y):
                own, labels = of_classes(rows, y, several)
                self.features.append(own.cpu())
                self.labels.append(labels.cpu())

    def task(self, record: TaskRecord) -> None:
        """Compute the deviation of every class, and discard the features."""
        trained = angle_deviation(torch.cat(self.features), torch.cat(self.labels)) if self.features else {}
        tested = self._tested()
        found: dict[str, Any] = {"trained": trained, "tested": tested, "learned": record.learned}
        for name, classes in (("old", self.old), ("new", self.new)):
            found |= {f"{name} trained": mean_over(trained, classes), f"{name} tested": mean_over(tested, classes)}
        self.tasks.append(found)
        self.features, self.labels = [], []

    def _tested(self) -> dict[int, float]:
        """The deviation on some test images of each class seen so far."""
        run, came = self.run, self.old + self.new
        index = torch.cat([task.test for task in run.stream]).unique()
        labels = run.stream.test.labels[index]
        some = torch.cat([index[labels == c][:_TEST_IMAGES] for c in came])
        model = run.trainer.learning.model
        features = in_evaluation(model, model.encode, run.stream.test.images, some, run.stream.protocol)
        return angle_deviation(features.cpu(), run.stream.test.labels[some])

    def analysis(self) -> Analysis | None:
        """Bars for the last task, and lines over the tasks."""
        if not self.tasks or not self.tasks[-1]["trained"]:
            return None
        last, angle = self.tasks[-1], Axis("Angle deviation (degrees)")
        bars = {word: listed([last[f"old {of}"], last[f"new {of}"]]) for of, word in _WORDS.items()}
        lines = {
            f"{when} classes, {word}": listed(task[f"{when} {of}"] for task in self.tasks)
            for of, word in _WORDS.items()
            for when in ("old", "new")
        }
        known = {name: values for name, values in lines.items() if any(value is not None for value in values)}
        over_tasks = Plot("lines", Axis("Tasks learned", numbered(len(self.tasks))), angle, known)
        return Analysis(
            "Intra-class angle deviation",
            "Mean angle between the features of a class and their mean direction, in training as the classifier sees "
            f"them, and of {_TEST_IMAGES} test images a class. Old classes that vary less than new ones are "
            "remembered by too few samples.",
            {f"{name} (degrees)": values[-1] for name, values in lines.items()},
            {
                "angle_deviation": Plot("bars", Axis("", ["old classes", "new classes"]), angle, bars),
                "angle_deviation_over_tasks": over_tasks,
            },
            "recorded",
        )
