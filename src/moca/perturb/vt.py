"""VT: variation transfer, old classes borrow the spread of new ones."""

from typing import Any

import torch
from torch import Tensor

from moca import sphere
from moca.batch import Batch
from moca.perturb.base import Perturbation
from moca.perturb.class_means import ClassMeans
from moca.perturb.rows import paired
from moca.settings import perturb


class VT(Perturbation[perturb.VT]):
    """n = h(x_new) - the mean feature of its class."""

    means: ClassMeans | None = None

    @property
    def needs(self) -> tuple[str, ...]:
        """The number of classes, for their means; or the classifier."""
        return {"class": ("classes",), "batch": (), "classifier": ("model",)}[self.settings.center]

    def direction(self, replay: Batch, new: Batch) -> Tensor:
        """The deviation of each new sample from its class, paired by row; zero where the class is that one sample."""
        h, y = new.features.float(), new.y
        match self.settings.center:
            case "class":
                self.means = self.means or ClassMeans(self.classes, h, self.settings.momentum)
                center = self.means.update(h, y)[y]
            case "batch":
                center = h.mean(0)
            case "classifier":
                center = self.model.head.weight.float()[y]
        n = h - center
        n = torch.where(sphere.norm(n) > 1e-5 * sphere.norm(h), n, 0)
        return paired(n, len(replay.features))

    def state(self) -> dict[str, Any]:
        """The running means too."""
        return super().state() | {"means": self.means.state() if self.means else None}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from where `state` was taken."""
        super().load_state_dict(state)
        kept = state["means"]
        self.means = ClassMeans.from_state(kept, self.settings.momentum) if kept else None
