"""Accuracy of a model on every task of a stream."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from moca.data import Protocol, Transform
from moca.engine.resident import resident
from moca.inference_batches import MOST, at_once
from moca.models import Model
from moca.models.evaluating import evaluating
from moca.streams import Stream


class Stopped(Exception):
    """Raised where a stop was asked for in the middle of a test."""


@dataclass(frozen=True)
class Accuracies:
    """Share of correct predictions on each task."""

    class_il: list[float]
    """Among all classes: the model is not told the task."""
    task_il: list[float]
    """Among the classes of the sample's task."""
    by_class: list[float | None] = field(default_factory=list)
    """On the samples of each class, all classes competing; None where it has none."""


@torch.no_grad()
def evaluate(
    model: Model, predict: Callable[[Tensor], Tensor], stream: Stream, stop: Callable[[], bool] = lambda: False
) -> Accuracies:
    """Test every task of the stream, learned or not, with running BatchNorm statistics; `predict` gives a score of
    every class. Raises `Stopped` once `stop` says so."""

    def asked_on(x: Tensor) -> Tensor:
        if stop():
            raise Stopped
        return predict(x)

    device = next(model.parameters()).device
    class_il, task_il, classes = [], [], stream.classes
    right, all_of = (torch.zeros(classes, dtype=torch.int64, device=device) for _ in range(2))
    asked = torch.cat([task.test for task in stream])
    all_scores = in_evaluation(model, asked_on, stream.test.images, asked, stream.protocol)
    for task, scores in zip(stream, all_scores.split([len(task.test) for task in stream]), strict=True):
        y = stream.test.labels[task.test].to(device)
        own = torch.tensor([c for c in task.tested if c < scores.shape[1]], device=device)
        correct = scores.argmax(1) == y
        right, all_of = right + y[correct].bincount(minlength=classes), all_of + y.bincount(minlength=classes)
        class_il.append(_share(correct))
        task_il.append(_share(own[scores[:, own].argmax(1)] == y) if len(own) else 0.0)
    of_class = zip(right.tolist(), all_of.tolist(), strict=True)
    return Accuracies(class_il, task_il, [n / count if count else None for n, count in of_class])


@torch.no_grad()
def in_evaluation(
    model: Model, network: Callable[[Tensor], Tensor], images: Tensor, index: Tensor, protocol: Protocol
) -> Tensor:
    """What a network makes of these raw images (the model, its encoder, or what a learner predicts by) while the model
    is in evaluation mode; its own mode is left as it was."""
    device = next(model.parameters()).device
    transform, images = Transform.plain(protocol, device), resident(images, device)
    batches = index.to(images.device).split(at_once(images, MOST[device.type]))
    with evaluating(model):
        return torch.cat([network(transform(images[some].to(device))) for some in batches])


def _share(correct: Tensor) -> float:
    return correct.double().mean().item() if len(correct) else float("nan")
