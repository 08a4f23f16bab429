"""PASS: prototype augmentation and self-supervision; stores each class's mean feature instead of samples.

Paper: Zhu et al., CVPR 2021 (Prototype Augmentation and Self-Supervision for Incremental Learning).
"""

from typing import TYPE_CHECKING, Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from moca.batch import Batch
from moca.errors import MocaError
from moca.learners.base import Distilling, Losses, among
from moca.parts import option
from moca.state import longer

if TYPE_CHECKING:
    from moca.streams import Task


class PASS(Distilling):
    """CE on new samples and their rotations, CE on noisy prototypes of old classes, and distillation of features.

    A perturbation replaces the noise: it moves prototypes as it moves the features of replayed samples.
    """

    rotations: bool = option(True, "learn the four rotations of an image as separate classes")
    noise: Literal["radius", "none"] = option(
        "radius", "noise on prototypes if there is no perturbation: r N(0, I), or none"
    )
    temperature: float = option(0.1, "logits are divided by this", gt=0)
    prototypes: float = option(10.0, "weight of the loss on prototypes", ge=0)
    distillation: float = option(10.0, "weight of the distance to the features before the task", ge=0)

    draws = 0
    store = None
    replays_images = False
    remembers = ("means", "radius", "fresh")
    recipes = {
        "small": {
            "head": "linear",
            "optimiser": "adam:weight_decay=2e-4",
            "lr": 0.001,
            "prototypes": 3.0,
            "distillation": 0.3,
        },
        "own": {"head": "linear", "optimiser": "adam:weight_decay=2e-4", "lr": 0.001},
    }

    @property
    def outputs(self) -> int:
        """One output per rotation."""
        return 4 if self.rotations else 1

    def prepare(self) -> None:
        """Create the prototypes, and copy the initial rows of the classifier."""
        super().prepare()
        head = self.model.head
        self.means = torch.zeros(len(self.came), head.weight.shape[1], device=self.came.device)
        self.radius = torch.zeros((), device=self.came.device)
        self.fresh = {name: rows.detach().clone() for name, rows in self._rows().items()}

    def _rows(self) -> dict[str, Tensor]:
        """Parameters of the classifier that have one row per output."""
        outputs = self.outputs * len(self.came)
        return {name: p for name, p in self.model.head.named_parameters() if p.shape[:1] == (outputs,)}

    def begin_task(self, task: "Task") -> None:
        """Re-initialise the classifier rows of new classes, because weight decay has shrunk them."""
        super().begin_task(task)
        new = (self.came == self.number).repeat_interleave(self.outputs)
        with torch.no_grad():
            for name, rows in self._rows().items():
                rows[new] = self.fresh[name][new]

    def see(self, new: Batch) -> Batch:
        """Add three copies of every image, rotated by 90, 180 and 270 degrees; each rotation is a class of its own."""
        if not self.rotations:
            return new
        if new.x.shape[-1] != new.x.shape[-2]:
            raise MocaError("pass turns images by a quarter, so they must be square; use pass:rotations=false")
        x = torch.cat([torch.rot90(new.x, quarter, (2, 3)) for quarter in range(4)])
        return new.replace(x=x, y=torch.cat([4 * new.y + quarter for quarter in range(4)]))

    def losses(self, new: Batch, *replays: Batch) -> Losses:
        """CE(new) + w_p CE(moved prototypes) + w_d ||H - H_old||, where the norm is that of the whole batch."""
        losses = {"new": F.cross_entropy(self._scaled(new.logits), new.y)}
        if self.first_task:
            return losses
        count = len(new.y) // self.outputs
        upright = Batch(x=new.x[:count], features=new.features[:count], y=new.y[:count] // self.outputs)
        drawn = self._drawn(count)
        logits = self.model.classify(self._moved(drawn, upright))
        losses["prototypes"] = self.prototypes * F.cross_entropy(self._scaled(logits), drawn.y * self.outputs)
        with torch.no_grad():
            before = self.teacher.encode(new.x)
        losses["distillation"] = self.distillation * (new.features - before).norm()
        return losses

    def _drawn(self, count: int) -> Batch:
        """Draw prototypes of old classes with replacement."""
        old = self.old
        old_first = (~old).to(torch.int8).argsort(stable=True)
        y = old_first[self.random.below(old.sum().expand(count))]
        return Batch(features=self.means[y], y=y)

    def _moved(self, drawn: Batch, new: Batch) -> Tensor:
        if self.perturbation.moves:
            return self.perturbed(drawn, new)
        if self.noise == "none":
            return drawn.features
        return drawn.features + self.radius * self.random.normal(*drawn.features.shape)

    def _scaled(self, logits: Tensor) -> Tensor:
        """Logits divided by the temperature, with unseen classes masked out."""
        return among(logits / self.temperature, self.seen.repeat_interleave(self.outputs))

    def end_task(self, samples: Batch) -> None:
        """Compute the prototypes of the new classes and, after the first task, the radius: the root of their mean
        variance per dimension."""
        count, total, square = self._moments(samples)
        new = (count > 0) & (self.came == self.number)
        means = total / count.clamp_min(1).unsqueeze(1)
        self.means.copy_(torch.where(new.unsqueeze(1), means.float(), self.means))
        if self.first_task:
            variance = (square - count * means.square().sum(1)) / (count - 1).clamp_min(1)
            variance = variance.clamp_min(0)  # rounding may make it negative if all features are the same
            self.radius.copy_((variance.sum() / new.sum() / means.shape[1]).sqrt())

    @torch.no_grad()
    def _moments(self, samples: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """For each class, the number, sum and sum of squared norms of its features, augmented as in training."""
        classes, width = self.means.shape
        count, square = (torch.zeros(classes, dtype=torch.float64, device=self.means.device) for _ in range(2))
        total = torch.zeros(classes, width, dtype=torch.float64, device=self.means.device)
        for images, y in self.portions(samples):
            h = self.model.encode(self.augment(images)).double()
            members = F.one_hot(y, classes).double().T
            count += members.sum(1)
            total += members @ h
            square += members @ h.square().sum(1)
        return count, total, square

    def scores(self, logits: Tensor) -> Tensor:
        """Each class's output for the upright image, divided by the temperature; -inf for unseen classes."""
        return (logits[:, :: self.outputs] / self.temperature).masked_fill(~self.seen, -torch.inf)

    def grow(self, classes: int) -> None:
        """Extend the prototypes and the copied rows to this many classes."""
        super().grow(classes)
        self.means = longer(self.means, classes)
        grown: dict[str, Any] = {name: rows.detach()[len(self.fresh[name]) :] for name, rows in self._rows().items()}
        self.fresh = {name: torch.cat([rows, grown[name]]) for name, rows in self.fresh.items()}
