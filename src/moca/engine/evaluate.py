"""Evaluates a model on every task of a stream."""

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


@dataclass(frozen=True)
class Accuracies:
    """Accuracies of one test."""

    class_il: list[float]
    """On each task, among all classes: the model is not told the task."""
    task_il: list[float]
    """On each task, among the classes of that task."""
    by_class: list[float | None] = field(default_factory=list)
    """On the samples of each class, among all classes; None for a class without test samples."""


@torch.no_grad()
def evaluate(
    model: Model,
    predict: Callable[[Tensor], Tensor],
    stream: Stream,
    progress: Callable[[float], None] = lambda share: None,
) -> Accuracies:
    """Test on every task of the stream, learned or not, with running BatchNorm statistics; `predict` gives a score for
    every class. Before each batch, `progress` is told the share of images done; it may raise to stop."""
    done = 0

    def counted(x: Tensor) -> Tensor:
        nonlocal done
        progress(done / max(len(index), 1))
        done += len(x)
        return predict(x)

    device = next(model.parameters()).device
    index, sizes = torch.cat([task.test for task in stream]), [len(task.test) for task in stream]
    all_scores = in_evaluation(model, counted, stream.test.images, index, stream.protocol)
    all_y = stream.test.labels[index].to(device)
    correct, task_il = all_scores.argmax(1) == all_y, []
    for task, scores, y in zip(stream, all_scores.split(sizes), all_y.split(sizes), strict=True):
        own = torch.tensor([c for c in task.tested if c < scores.shape[1]], device=device)
        task_il.append(_share(own[scores[:, own].argmax(1)] == y) if len(own) else 0.0)
    of_class = zip(*(y.bincount(minlength=stream.classes).tolist() for y in (all_y[correct], all_y)), strict=True)
    by_class = [right / count if count else None for right, count in of_class]
    return Accuracies([_share(rows) for rows in correct.split(sizes)], task_il, by_class)


@torch.no_grad()
def in_evaluation(
    model: Model, network: Callable[[Tensor], Tensor], images: Tensor, index: Tensor, protocol: Protocol
) -> Tensor:
    """Apply `network` (the model, its encoder or a learner's `predict`) to the raw images at `index`, with the model in
    evaluation mode; its mode is restored afterwards."""
    device = next(model.parameters()).device
    transform, images = Transform.plain(protocol, device), resident(images, device)
    batches = index.to(images.device).split(at_once(images, MOST[device.type]))
    with evaluating(model):
        return torch.cat([network(transform(images[some].to(device))) for some in batches])


def _share(correct: Tensor) -> float:
    return correct.double().mean().item() if len(correct) else float("nan")
