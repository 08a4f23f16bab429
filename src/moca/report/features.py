"""What a two-dimensional encoder makes of the test images: the material of a feature plane."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from moca.engine.evaluate import in_evaluation
from moca.engine.trainer import Trainer
from moca.errors import MocaError


@dataclass(frozen=True)
class Panel:
    """Features of samples in the plane, and the class vectors of the head."""

    title: str
    points: NDArray[np.float32]
    """(n, 2)"""
    labels: NDArray[np.int64]
    """(n,)"""
    old: NDArray[np.bool_]
    """(n,): whether the sample's class came before the last task."""
    directions: NDArray[np.float32]
    """(classes, 2)"""
    names: tuple[str, ...] = ()
    """What the classes are called; their numbers if empty."""


def feature_panel(trainer: Trainer, title: str) -> Panel:
    """The test images of all tasks of the trainer's stream, encoded with running BatchNorm statistics."""
    stream, model = trainer.schedule.stream, trainer.learning.model
    if model.head.weight.shape[1] != 2:
        raise MocaError(
            f"a feature plane needs features of length 2, but the encoder has {model.head.weight.shape[1]}; "
            "use for example model=mlp:features=2"
        )
    index = torch.cat([task.test for task in stream])
    points = in_evaluation(model, model.encode, stream.test.images, index, stream.protocol).cpu()
    labels = stream.test.labels[index]
    old = ~torch.isin(labels, torch.tensor(stream[-1].classes))
    directions = model.head.weight.detach().cpu().numpy().copy()
    return Panel(title, points.numpy(), labels.numpy(), old.numpy(), directions, stream.names)
