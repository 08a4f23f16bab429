"""Analyses of the final model, from its weights and the stream's images."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from moca.engine.evaluate import in_evaluation
from moca.engine.learning import Learning
from moca.measures.analysis import Analyses, Analysis, Axis, Plot, listed, numbered
from moca.measures.angles import angle_deviation, mean_over
from moca.measures.calibration import reliability
from moca.measures.classifiers import angles_between_tasks
from moca.measures.confusion import OVER_IMAGES, by_task, confusion
from moca.measures.fisher import angular_fisher_score
from moca.measures.lead import ACCURACY, ADJUST, MARKED, MULTIPLES, adjusted, summary
from moca.measures.probe import probe_predictions
from moca.streams import Stream, Task

_PROBED = 5000
"""The largest number of training images that a linear probe is fitted to."""
_POINTS = 1000
"""The largest number of two-dimensional features to draw."""
_NAMES = 100
"""The largest number of classes for which a confusion matrix is drawn."""


class OfModel:
    """The network that a run tests, with its features and scores of the stream's images in evaluation mode."""

    def __init__(self, learning: Learning, stream: Stream) -> None:
        self.learning, self.model, self.stream = learning, learning.learner.tested_model(), stream
        self.tasks = [list(task.tested) for task in stream]
        """The classes of each task."""
        self.came = came = first_tasks(stream)
        self.apart = sum(map(len, self.tasks)) == len(came)
        """Whether no class belongs to two tasks; domains share all classes."""
        self.old = sorted(c for c, task in came.items() if task < len(stream) - 1)
        self.new = sorted(c for c, task in came.items() if task == len(stream) - 1)

    @cached_property
    def test(self) -> Tensor:
        """Indices of all test images."""
        index: Tensor = torch.cat([task.test for task in self.stream]).unique()
        return index

    @cached_property
    def labels(self) -> Tensor:
        """Labels of all test images."""
        return self.stream.test.labels[self.test]

    @cached_property
    def features(self) -> Tensor:
        """Features of all test images."""
        return self._encoded(self.stream.test.images, self.test)

    @cached_property
    def scores(self) -> Tensor:
        """The learner's scores of every class, for all test images."""
        learning, images = self.learning, self.stream.test.images
        return in_evaluation(learning.model, learning.predict, images, self.test, self.stream.protocol).cpu()

    @cached_property
    def train(self) -> Tensor:
        """Indices of training images, spread over all tasks."""
        index: Tensor = torch.cat([task.train for task in self.stream]).unique()
        return _some(index[self.stream.train.labels[index].argsort(stable=True)], _PROBED)

    @cached_property
    def training_features(self) -> Tensor:
        """Features of the training images in `train`, without augmentation."""
        return self._encoded(self.stream.train.images, self.train)

    def _encoded(self, images: Tensor, index: Tensor) -> Tensor:
        return in_evaluation(self.model, self.model.encode, images, index, self.stream.protocol).cpu()

    @cached_property
    def stored(self) -> tuple[Tensor, Tensor] | None:
        """The images in the memory and their labels, if it holds any."""
        memory = self.learning.memory
        if memory is None or not len(memory) or "image" not in memory.fields:
            return None
        stored = memory.all()
        return stored["image"].cpu(), stored["y"].cpu()

    def analyses(self) -> Analyses:
        """All analyses that are possible for this model."""
        with self.learning.numerics():
            found = {name: make(self) for name, make in OF_MODEL.items()}
        return {name: analysis for name, analysis in found.items() if analysis is not None}

    def angle_deviation(self) -> Analysis:
        """Intra-class angle deviation of test features (Fig. 1, according to its caption)."""
        by_class = angle_deviation(self.features, self.labels)
        old, new = mean_over(by_class, self.old), mean_over(by_class, self.new)
        x, y = Axis("", ["old classes", "new classes"]), Axis("Angle deviation (degrees)")
        return Analysis(
            "Intra-class angle deviation of test features",
            "Mean angle between the test features of a class and their mean direction, of the final model.",
            {"old classes (degrees)": old, "new classes (degrees)": new},
            {"test_angle_deviation": Plot("bars", x, y, {"test": listed([old, new])})},
        )

    def classifier_angles(self) -> Analysis | None:
        """Angles between the tasks' class vectors (Fig. 9); None if tasks share classes."""
        if not self.apart:
            return None
        angles = angles_between_tasks(self.model.class_vectors.cpu(), self.tasks)
        upper = torch.triu(torch.ones_like(angles), 1).bool()
        shown = [
            listed(value if a <= b else None for b, value in enumerate(row)) for a, row in enumerate(angles.tolist())
        ]
        task = Axis("Task", numbered(len(angles)))
        return Analysis(
            "Angles between the classifiers of tasks",
            "Mean angle between the class vectors of two tasks; on the diagonal, between different classes of one.",
            {
                "between tasks (degrees)": angles[upper].mean().item(),
                "within tasks (degrees)": angles.diagonal().nanmean().item(),
            },
            {"classifier_angles": Plot("matrix", task, task, {"class vectors": shown}, "mean angle (degrees)")},
        )

    def fisher_score(self) -> Analysis:
        """Angular Fisher score of test and training features (Table 13)."""
        of = {
            "test": (self.features, self.labels),
            "training": (self.training_features, self.stream.train.labels[self.train]),
        }
        scores = {name: [angular_fisher_score(x, y, unit) for unit in (False, True)] for name, (x, y) in of.items()}
        kinds = ["raw features", "unit features"]
        x, y = Axis("", kinds), Axis("Angular Fisher score")
        return Analysis(
            "Angular Fisher score",
            "Spread within classes over spread between them, by cosines; lower is better.",
            {f"{name}, {kind}": s for name, pair in scores.items() for kind, s in zip(kinds, pair, strict=True)},
            {"angular_fisher_score": Plot("bars", x, y, {name: listed(pair) for name, pair in scores.items()})},
        )

    def confusion(self) -> Analysis:
        """Confusion matrices of classes and tasks."""
        counts = confusion(self.scores.argmax(1), self.labels, max(self.scores.shape[1], self.stream.classes))
        shares = counts.double() / counts.sum(1, keepdim=True).clamp_min(1)
        came = sorted(self.came, key=lambda c: (self.came[c], c))
        of_old = counts[self.old]
        both = self.old and self.new
        taken = 100 * (of_old[:, self.new].sum() / of_old.sum().clamp_min(1)).item() if both else math.nan
        plots = {}
        if len(came) <= _NAMES:
            names = [self.stream.names[c] for c in came]
            plots["confusion"] = _shares(names, "class", shares[came][:, came])
        if self.apart:
            blocks = by_task(counts, self.tasks)
            plots["confusion_of_tasks"] = _shares(numbered(len(blocks)), "task", blocks)
        return Analysis(
            "Confusion matrix",
            f"Of the test images of each class (a row), the share taken for each class. {OVER_IMAGES}",
            {
                "accuracy on all test images (%)": 100 * (counts.diagonal().sum() / counts.sum()).item(),
                "old classes taken for new ones (%)": taken,
            },
            plots,
            arrays={"counts": counts.numpy()},
        )

    def calibration(self) -> Analysis | None:
        """Accuracy against confidence; None if the learner predicts by distances."""
        if not self.learning.learner.has_logits:
            return None
        found = reliability(self.scores.softmax(1), self.labels)
        x, y, right = Axis("Confidence", found.centres), Axis("Accuracy"), {"predictions": listed(found.accuracy)}
        return Analysis(
            "Calibration",
            "How often a prediction is right against how sure the classifier is of it; ECE is their mean distance. "
            "On the dashed line they are equal.",
            {
                "expected calibration error (%)": 100 * found.ece,
                "confidence above accuracy (%)": 100 * found.overconfidence,
            },
            {"calibration": Plot("lines", x, y, right, diagonal=True)},
            arrays={"counts": torch.tensor(found.counts).numpy(), "confidence": torch.tensor(found.confidence).numpy()},
        )

    def lead(self) -> Analysis | None:
        """Accuracy over the logit adjustment of new classes; None if there is no lead, as with one task."""
        learner = self.learning.learner
        lead = learner.lead.cpu()
        if not lead.any() or not learner.has_logits:
            return None
        found = adjusted(self.scores + learner.adjusts_by * lead, self.labels, lead, MULTIPLES)
        x, y = Axis(ADJUST, MULTIPLES), Axis(ACCURACY)
        curves = {
            f"{name} classes": listed(100 * accuracy for accuracy in curve) for name, curve in found._asdict().items()
        }
        return Analysis(
            "Logit adjustment of new classes",
            "Accuracy on test images as the logits of the last task's classes, which training favours, are lowered; a "
            f"learner's `adjust` does this. The best value is known only afterwards. {MARKED}",
            summary(found.all) | ({"adjust of the run": learner.adjusts_by} if learner.adjusts_by else {}),
            {"lead_of_new_classes": Plot("lines", x, y, curves, mark=learner.adjusts_by or 1)},
        )

    def linear_probe(self) -> Analysis:
        """Accuracy of a linear classifier fitted to the features, by task."""
        classes = max(self.scores.shape[1], self.stream.classes)
        probed = probe_predictions(self.training_features, self.stream.train.labels[self.train], self.features, classes)
        right = {"linear probe": probed == self.labels, "own classifier": self.scores.argmax(1) == self.labels}

        def share(rows: Tensor, task: Task) -> float:
            return rows[torch.isin(self.test, task.test)].double().mean().item()

        x, y = Axis("Task", numbered(len(self.tasks))), Axis("Accuracy on its test images")
        shares = {name: listed(share(rows, task) for task in self.stream) for name, rows in right.items()}
        return Analysis(
            "Linear probe",
            f"Accuracy of a linear classifier fitted to the features of {len(self.train)} training images of all "
            "tasks: what the encoder knows, whatever the classifier has forgotten.",
            {f"accuracy, {name} (%)": 100 * rows.double().mean().item() for name, rows in right.items()},
            {"linear_probe": Plot("bars", x, y, shares)},
        )

    def plane(self) -> Analysis | None:
        """Two-dimensional features of stored samples, the last task and test images (Fig. 2); None if the features have
        other dimensions."""
        if self.features.shape[1] != 2:
            return None
        last = self.stream[-1].train
        images, labels = [self.stream.train.images[last]], [self.stream.train.labels[last]]
        if self.stored:
            image, y = self.stored
            replayed = torch.isin(y, torch.tensor(self.old))
            images, labels = [image[replayed], *images], [y[replayed], *labels]
        pixels, y = torch.cat(images), torch.cat(labels)
        trained = self._encoded(pixels, torch.arange(len(pixels)))
        vectors = self.model.class_vectors.detach().cpu().tolist()
        points = {"training": self._points(trained, y, vectors),
                  "test": self._points(self.features, self.labels, vectors)}  # fmt: skip
        return Analysis(
            "Features in the plane",
            "What a two-unit feature layer makes of images of old and new classes; training: what the memory holds of "
            "old classes, and the last task.",
            {},
            {"feature_plane": Plot("points", Axis("First feature"), Axis("Second feature"), points)},
            arrays={
                "training": trained.numpy(),
                "training classes": y.numpy(),
                "test": self.features.numpy(),
                "test classes": self.labels.numpy(),
            },
        )

    def _points(self, features: Tensor, labels: Tensor, vectors: list[Any]) -> dict[str, Any]:
        """A sample of the points, drawn separately for old and new classes: a memory holds few of the old ones."""
        old = torch.isin(labels, torch.tensor(self.old))
        chosen = torch.cat([_some(rows.nonzero().flatten(), _POINTS // 2) for rows in (old, ~old)])
        points, y = features[chosen], labels[chosen]
        return {"x": points[:, 0].tolist(), "y": points[:, 1].tolist(), "class": y.tolist(),
                "old": old[chosen].tolist(), "vectors": vectors, "names": list(self.stream.names)}  # fmt: skip


OF_MODEL: dict[str, Callable[[OfModel], Analysis | None]] = {
    "test_angle_deviation": OfModel.angle_deviation,
    "classifier_angles": OfModel.classifier_angles,
    "angular_fisher_score": OfModel.fisher_score,
    "confusion": OfModel.confusion,
    "lead_of_new_classes": OfModel.lead,
    "linear_probe": OfModel.linear_probe,
    "calibration": OfModel.calibration,
    "feature_plane": OfModel.plane,
}
"""All analyses of a final model by name."""


def first_tasks(stream: Stream) -> dict[int, int]:
    """The task of each class, counted from 0: the first that tests it, even if some of its samples arrive earlier or
    later."""
    came: dict[int, int] = {}
    for number, task in enumerate(stream):
        for c in task.tested:
            came.setdefault(c, number)
    return came


def _some(index: Tensor, most: int) -> Tensor:
    """At most so many of these, evenly spaced."""
    return index[torch.linspace(0, len(index) - 1, min(len(index), most)).long()] if len(index) else index


def _shares(names: list[Any], of: str, values: Tensor) -> Plot:
    x, y = Axis(f"Predicted {of}", names), Axis(f"True {of}", names)
    return Plot("matrix", x, y, {"test": values.tolist()}, "share of the row")
