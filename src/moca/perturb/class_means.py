"""The running mean feature of each class."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from moca.state import Stateful


class ClassMeans(Stateful):
    """Means that follow the batches with a momentum; a class's first batch sets its mean."""

    def __init__(self, classes: int, h: Tensor, momentum: float) -> None:
        """`h` are features of the kind that will come."""
        self.means, self.seen = h.new_zeros(classes, h.shape[1]), h.new_zeros(classes, 1)
        self.momentum = momentum

    def update(self, h: Tensor, y: Tensor) -> Tensor:
        """Move the means of the classes in this batch; all means, a row a class."""
        members = F.one_hot(y, len(self.means)).to(h.dtype)
        count = members.sum(0).unsqueeze(1)
        batch_mean = members.T @ h / count.clamp_min(1)
        keep = torch.where(self.seen > 0, self.momentum, 0.0)
        self.means.copy_(torch.where(count > 0, keep * self.means + (1 - keep) * batch_mean, self.means))
        self.seen += count > 0
        return self.means

    def state(self) -> dict[str, Any]:
        """The means, and how many batches each has seen."""
        return {"means": self.means, "seen": self.seen}

    @classmethod
    def from_state(cls, state: dict[str, Any], momentum: float) -> "ClassMeans":
        """The means as they were when `state` was taken."""
        means = cls(len(state["means"]), state["means"], momentum)
        means.means.copy_(state["means"])
        means.seen.copy_(state["seen"])
        return means
