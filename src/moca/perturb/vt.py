"""VT: variation transfer, old classes borrow the spread of new ones."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from moca import sphere
from moca.batch import Batch
from moca.perturb.base import Perturbation, paired
from moca.settings import perturb


class VT(Perturbation[perturb.VT]):
    """n = h(x_new) - the mean feature of its class."""

    means: Tensor | None = None
    """Running mean feature of each class, (classes, d)."""
    seen: Tensor | None = None
    """How many batches each running mean has seen."""

    def direction(self, replay: Batch, new: Batch) -> Tensor:
        """The deviation of each new sample from its class, paired by row; zero where the class is that one sample."""
        h, y = new.features.float(), new.y
        match self.settings.center:
            case "class":
                center = self._update(h, y)[y]
            case "batch":
                center = h.mean(0)
            case "classifier":
                center = self.model.head.weight.float()[y]
        n = h - center
        n = torch.where(sphere.norm(n) > 1e-5 * sphere.norm(h), n, 0)
        return paired(n, len(replay.features))

    def _update(self, h: Tensor, y: Tensor) -> Tensor:
        """Move the means of the classes in this batch; a class's first batch sets its mean."""
        if self.means is None or self.seen is None:
            self.means, self.seen = h.new_zeros(self.classes, h.shape[1]), h.new_zeros(self.classes, 1)
        members = F.one_hot(y, len(self.means)).to(h.dtype)
        count = members.sum(0).unsqueeze(1)
        batch_mean = members.T @ h / count.clamp_min(1)
        keep = torch.where(self.seen > 0, self.settings.momentum, 0.0)
        self.means.copy_(torch.where(count > 0, keep * self.means + (1 - keep) * batch_mean, self.means))
        self.seen += count > 0
        return self.means

    def changing_tensors(self) -> list[Tensor]:
        """The running means too."""
        return super().changing_tensors() + [t for t in (self.means, self.seen) if t is not None]

    def state_dict(self) -> dict[str, Any]:
        """The running means too."""
        kept = None if self.means is None or self.seen is None else (self.means.clone(), self.seen.clone())
        return super().state_dict() | {"means": kept}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from where `state` was taken."""
        super().load_state_dict(state)
        self.means, self.seen = (t.clone() for t in state["means"]) if state["means"] else (None, None)
