"""PASS: prototype augmentation and self-supervision; each old class is one feature, its mean, kept instead of samples.

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
    """New samples with their rotations, prototypes of old classes with noise, and features that stay where they were.

    A perturbation takes the place of the noise: it moves prototypes as it moves features of replayed samples.
    """

    rotations: bool = option(True, "learn the four rotations of an image as classes of their own")
    noise: Literal["radius", "none"] = option("radius", "of prototypes without a perturbation: r N(0, I), or none")
    temperature: float = option(0.1, "that logits are divided by", gt=0)
    prototypes: float = option(10.0, "weight of the loss on prototypes", ge=0)
    distillation: float = option(10.0, "weight of the distance to the old features", ge=0)

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
        """One for each rotation."""
        return 4 if self.rotations else 1

    def prepare(self) -> None:
        """No prototypes yet; and the rows of the classifier as they are at first."""
        super().prepare()
        head = self.model.head
        self.means = torch.zeros(len(self.came), head.weight.shape[1], device=self.came.device)
        self.radius = torch.zeros((), device=self.came.device)
        self.fresh = {name: rows.detach().clone() for name, rows in self._rows().items()}

    def _rows(self) -> dict[str, Tensor]:
        """Parameters of the classifier that have a row for each output."""
        outputs = self.outputs * len(self.came)
        return {name: p for name, p in self.model.head.named_parameters() if p.shape[:1] == (outputs,)}

    def begin_task(self, task: "Task") -> None:
        """Classes that come now start with fresh rows: weight decay has worn down those that waited."""
        super().begin_task(task)
        new = (self.came == self.number).repeat_interleave(self.outputs)
        with torch.no_grad():
            for name, rows in self._rows().items():
                rows[new] = self.fresh[name][new]

    def see(self, new: Batch) -> Batch:
        """Every image four times, turned by a quarter more each time."""
        if not self.rotations:
            return new
        if new.x.shape[-1] != new.x.shape[-2]:
            raise MocaError("pass turns images by a quarter, so they must be square; use pass:rotations=false")
        x = torch.cat([torch.rot90(new.x, quarter, (2, 3)) for quarter in range(4)])
        return new.replace(x=x, y=torch.cat([4 * new.y + quarter for quarter in range(4)]))

    def losses(self, new: Batch, *replays: Batch) -> Losses:
        """CE(new) + CE(moved prototypes) + ||H - H_old||, the norm of the whole batch."""
        losses = {"new": F.cross_entropy(self._sharpened(new.logits), new.y)}
        if self.first_task:
            return losses
        turned = len(new.y) // self.outputs
        upright = Batch(x=new.x[:turned], features=new.features[:turned], y=new.y[:turned] // self.outputs)
        drawn = self._drawn(turned)
        logits = self.model.classify(self._moved(drawn, upright))
        told = F.cross_entropy(self._sharpened(logits), drawn.y * self.outputs)
        with torch.no_grad():
            before = self.teacher.encode(new.x)
        losses["prototypes"] = self.prototypes * told
        losses["distillation"] = self.distillation * (new.features - before).norm()
        return losses

    def _drawn(self, count: int) -> Batch:
        """Prototypes of old classes, drawn with replacement."""
        old = self.old
        by_age = (~old).to(torch.int8).argsort(stable=True)
        y = by_age[self.random.below(old.sum().expand(count))]
        return Batch(features=self.means[y], y=y)

    def _moved(self, drawn: Batch, new: Batch) -> Tensor:
        if self.perturbation.moves:
            return self.perturbed(drawn, new)
        if self.noise == "none":
            return drawn.features
        return drawn.features + self.radius * self.random.normal(*drawn.features.shape)

    def _sharpened(self, logits: Tensor) -> Tensor:
        """Logits of the classes seen so far, at the temperature."""
        return among(logits / self.temperature, self.seen.repeat_interleave(self.outputs))

    def end_task(self, samples: Batch) -> None:
        """Prototypes of the new classes; and after the first task the radius, their mean standard deviation."""
        count, total, square = self._moments(samples)
        came = (count > 0) & (self.came == self.number)
        means = total / count.clamp_min(1).unsqueeze(1)
        self.means.copy_(torch.where(came.unsqueeze(1), means.float(), self.means))
        if self.first_task:
            spread = (square - count * means.square().sum(1)) / (count - 1).clamp_min(1)
            spread = spread.clamp_min(0)  # of features that are all the same, rounding may leave less than nothing
            self.radius.copy_((spread.sum() / came.sum() / means.shape[1]).sqrt())

    @torch.no_grad()
    def _moments(self, samples: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Of the features of each class, augmented as in training: their number, sum and sum of squared lengths."""
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
        """Of each class seen so far the output for the upright image, at the temperature."""
        return (logits[:, :: self.outputs] / self.temperature).masked_fill(~self.seen, -torch.inf)

    def grow(self, classes: int) -> None:
        """Room for more prototypes and rows."""
        super().grow(classes)
        self.means = longer(self.means, classes)
        grown: dict[str, Any] = {name: rows.detach()[len(self.fresh[name]) :] for name, rows in self._rows().items()}
        self.fresh = {name: torch.cat([rows, grown[name]]) for name, rows in self.fresh.items()}
