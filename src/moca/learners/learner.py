"""What every learner is: a loss over the new batch and what is replayed from memory."""

from __future__ import annotations

from typing import Any, ClassVar, Generic, TypeVar

import torch
from torch import Tensor

from moca.batch import Batch
from moca.models import Model
from moca.perturb import Perturbation
from moca.perturb import perturbation as make_perturbation
from moca.settings import Settings
from moca.state import Stateful

S = TypeVar("S", bound=Settings)
Losses = dict[str, Tensor]
"""The terms of the loss by name; their sum is minimised."""


class Learner(Stateful, Generic[S]):
    """A method of continual learning. It says only what the loss of a step is.

    All batches come with their features, the new one with its logits too.
    """

    draws: ClassVar[int] = 1
    """Independent replay batches a step; 0 for learners without memory."""
    stores_logits: ClassVar[bool] = False
    """Whether the memory keeps each sample's logits at the time of storing."""
    sees_all_tasks: ClassVar[bool] = False
    """Whether all tasks come at once."""
    static: ClassVar[bool] = True
    """Whether a step is a function of tensors with fixed shapes that never asks the device; others run eagerly."""

    def __init__(
        self,
        settings: S,
        model: Model,
        classes: int,
        perturbation: Perturbation[Any] | None = None,
        one_mean: bool = False,
    ) -> None:
        self.settings, self.model, self.one_mean = settings, model, one_mean
        self.perturbation = perturbation or make_perturbation("none")
        device = next(model.parameters()).device
        self.seen = torch.zeros(classes, dtype=torch.bool, device=device)
        """Classes of the tasks so far, the current one included."""
        self.current = torch.zeros(classes, dtype=torch.bool, device=device)
        """Classes of the current task."""
        self.first_task = True

    def losses(self, new: Batch, *replays: Batch) -> Losses:
        """The terms of the loss. `replays` holds `draws` batches, none while the memory is empty."""
        raise NotImplementedError

    def begin_task(self, classes: tuple[int, ...]) -> None:
        """A new task with these classes begins."""
        self.first_task = not bool(self.seen.any())
        self.current.zero_()
        self.current[list(classes)] = True
        self.seen |= self.current

    def is_old(self, y: Tensor) -> Tensor:
        """True for samples whose class belongs to earlier tasks only."""
        return ~self.current[y]

    def perturbed(self, replay: Batch, new: Batch) -> Tensor:
        """The seam: features of the replayed samples, those of old classes moved. In the first task none is old."""
        return replay.features if self.first_task else self.perturbation(replay, new)

    def state(self) -> dict[str, Any]:
        """Which classes came when, and the perturbation's state."""
        return {
            "seen": self.seen,
            "current": self.current,
            "first_task": self.first_task,
            "perturbation": self.perturbation.state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from where `state` was taken."""
        self.seen.copy_(state["seen"])
        self.current.copy_(state["current"])
        self.first_task = state["first_task"]
        self.perturbation.load_state_dict(state["perturbation"])
