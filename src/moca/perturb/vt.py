"""VT: variation transfer; old classes borrow the variation of new ones.

Paper: Yu et al., TMLR 2023, arXiv 2210.05398.
"""

from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from moca import sphere
from moca.batch import Batch, paired
from moca.errors import MocaError
from moca.parts import option
from moca.perturb.base import Perturbation
from moca.perturb_checks import class_numbers
from moca.state import longer


class VT(Perturbation):
    """n = h(x_new) - mu, where mu is the running mean feature of its class, with momentum over batches."""

    center: Literal["class", "batch", "classifier"] = option(
        "class", "what is subtracted: running class mean, mean of the new batch, or classifier row (code)"
    )
    momentum: float = option(0.9, "of the running class means", ge=0, lt=1)

    official_pass = ""
    recipes = Perturbation.recipes | {"small": {"lambda": 0.5}}
    remembers = ("means", "batches")
    means: Tensor | None = None
    """Running class means, one row per class."""
    batches: Tensor | None = None
    """How many batches each mean has seen; the first one initialises it."""

    @property
    def needs(self) -> tuple[str, ...]:
        """The number of classes for class means, or the model for classifier rows."""
        return {"class": ("classes",), "batch": (), "classifier": ("model",)}[self.center]

    def direction(self, replay: Batch, new: Batch) -> Tensor:
        """The deviation of each new sample from its centre, paired by row; zero if the sample is the centre."""
        h = new.features.float()
        match self.center:
            case "class":
                y = class_numbers(new.y, len(h), self.classes)
                center = self._updated_means(h, y)[y]
            case "batch":
                center = h.mean(0)
            case "classifier":
                vectors = self.model.class_vectors
                center = vectors[class_numbers(new.y, len(h), len(vectors))]
        n = h - center
        n = torch.where(sphere.norm(n) > 1e-5 * sphere.norm(h), n, 0)
        return paired(n, len(replay.features))

    def _updated_means(self, h: Tensor, y: Tensor) -> Tensor:
        """Update the running means of the classes in this batch, and return the means of all classes."""
        if self.means is None or self.batches is None:
            self.means, self.batches = h.new_zeros(self.classes, h.shape[1]), h.new_zeros(self.classes, 1)
        self.means, self.batches = self.means.to(h.device), self.batches.to(h.device)  # may differ in a checkpoint
        members = F.one_hot(y, len(self.means)).to(h.dtype)
        count = members.sum(0).unsqueeze(1)
        batch_mean = members.T @ h / count.clamp_min(1)
        keep = torch.where(self.batches > 0, self.momentum, 0.0)
        self.means.copy_(torch.where(count > 0, keep * self.means + (1 - keep) * batch_mean, self.means))
        self.batches += count > 0
        return self.means

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state, which must be of as many classes."""
        super().load_state_dict(state)
        if self.center == "class" and self.means is not None and (known := len(self.means)) != self.classes:
            raise MocaError(f"this state has means of {known} classes, not {self.classes}; give classes={known}")

    def grow(self, classes: int) -> None:
        """Extend the means to this many classes."""
        super().grow(classes)
        if self.means is not None and self.batches is not None:
            self.means, self.batches = longer(self.means, classes), longer(self.batches, classes)
