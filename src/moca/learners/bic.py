"""BiC: bias correction; distillation, then new classes' logits scaled and shifted to fit samples held out of training.

Paper: Wu et al., CVPR 2019, arXiv 1905.13260.
"""

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from moca.batch import Batch
from moca.learners.base import Distilling, Losses, divergence, mean_over
from moca.memory import Memory, Uniform
from moca.parts import option
from moca.state import longer

if TYPE_CHECKING:
    from moca.streams import Task

_RIDGE = 0.001
"""Strength of the pull towards no correction; without it, few samples could send the correction to infinity."""


class Training(Uniform):
    """Draws uniformly among the samples that are not held out."""

    def eligible(self, memory: Memory) -> Tensor:
        """Mask of the rows that are not held out."""
        return ~self.learner.held_out(memory.fields["image"][: memory.size])  # type: ignore[no-any-return]


class BiC(Distilling):
    """ER with distillation; after each task the logits z of its classes become a z + b, where a and b are fitted to
    held-out samples.

    A sample is held out, both when it is new and in the memory, if its bytes sum to a multiple of `hold`.
    """

    hold: int = option(10, "one sample in this many is held out of training, to fit the correction", ge=2)
    temperature: float = option(2.0, "of the distilled softmax", gt=0)

    draw = Training
    expected_adjust = 0.0
    recipes = {"small": {"hold": 4}}
    remembers = ("scale", "shift", "share")

    def prepare(self) -> None:
        """Create the correction of each class, which changes nothing yet."""
        super().prepare()
        self.scale = torch.ones(len(self.came), device=self.came.device)
        self.shift = torch.zeros_like(self.scale)
        self.share = 0.0

    def begin_task(self, task: "Task") -> None:
        """Compute the share of old classes, the weight of distillation; a class that returns counts as old and new."""
        super().begin_task(task)
        old = int(self.old.sum())
        self.share = old / (old + len(task.classes))

    def held_out(self, images: Tensor) -> Tensor:
        """Mask of the raw images (or vectors) that are never trained on, decided by the sum of their bytes."""
        return images.flatten(1).contiguous().view(torch.uint8).sum(1, dtype=torch.int64) % self.hold == 0

    def losses(self, new: Batch, *replays: Batch) -> Losses:
        """(1 - s) (CE(new) + CE(replay)) + s KL over old classes on both, s the share of old classes."""
        losses = {"new": (1 - self.share) * self._mean(new, self._cross_entropy(new.logits, new.y))}
        for replay in replays:
            logits = self.model.classify(self.perturbed(replay, new))
            losses["replay"] = (1 - self.share) * self._mean(replay, self._cross_entropy(logits, replay.y))
        if not self.first_task:
            kl = [self._mean(new, self._kl(new, new.logits))]
            kl += [self._mean(replay, self._kl(replay, self.model.classify(replay.features))) for replay in replays]
            losses["distil"] = self.share * torch.stack(kl).sum()
        return losses

    def _mean(self, batch: Batch, each: Tensor) -> Tensor:
        """Mean over the samples that are not held out."""
        return mean_over(~self.held_out(batch.image), each)

    def _corrected(self, logits: Tensor) -> Tensor:
        return self.scale * logits + self.shift

    def _cross_entropy(self, logits: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(self._corrected(logits), y, reduction="none")

    def _kl(self, batch: Batch, logits: Tensor) -> Tensor:
        """Per-sample KL from the teacher's softmax over old classes; both have corrected logits."""
        with torch.no_grad():
            teacher_logits = self.teacher(batch.x)
        return divergence(self._corrected(teacher_logits), self._corrected(logits), self.old, self.temperature)

    def end_task(self, samples: Batch) -> None:
        """Fit the correction of the new classes to held-out samples: old ones in the memory, new ones of the task."""
        assert self.memory is not None
        fresh, stored = self.current & ~self.old, self.memory.all()
        labels = samples.y.to(self.came.device)
        images, ys = [], []
        for image, y, wanted in ((stored["image"], stored["y"], self.old), (samples.image, labels, fresh)):
            chosen = self.held_out(image).to(y.device) & wanted[y]
            images.append(image[chosen.to(image.device)].to(self.came.device))
            ys.append(y[chosen])
        if not all(map(len, ys)):
            return
        logits = self.asked(self.model, torch.cat(images))
        a, b = fitted(self._corrected(logits)[:, self.seen], torch.cat(ys), self.seen, fresh)
        self.scale[fresh], self.shift[fresh] = a, b

    def scores(self, logits: Tensor) -> Tensor:
        """The corrected logits."""
        return self._corrected(logits)

    def grow(self, classes: int) -> None:
        """Extend the correction to this many classes."""
        super().grow(classes)
        self.scale, self.shift = longer(self.scale, classes, 1), longer(self.shift, classes)


@torch.no_grad()
def fitted(logits: Tensor, y: Tensor, seen: Tensor, fresh: Tensor) -> tuple[float, float]:
    """The a and b that minimise the cross-entropy with logits a z + b for fresh classes and z for the others, where
    every class has the same weight. The problem is convex, and is solved by Newton's method."""
    z, new = logits.double(), fresh[seen].double()
    labels = F.one_hot((seen.cumsum(0) - 1)[y], len(new)).double()
    weight = labels @ (1 / labels.sum(0).clamp_min(1))
    weight = weight / weight.sum()
    jacobian = torch.stack([z * new, new.expand_as(z)])  # of the corrected logits, with respect to a and b
    start = torch.tensor([1.0, 0.0], dtype=torch.float64, device=z.device)

    def corrected(ab: Tensor) -> Tensor:
        return z * (1 - new) + ab[0] * jacobian[0] + ab[1] * jacobian[1]

    def loss(ab: Tensor) -> Tensor:
        cross_entropy = -(labels * corrected(ab).log_softmax(1)).sum(1)
        return weight @ cross_entropy + _RIDGE / 2 * (ab - start).square().sum()

    ab = start
    for _ in range(30):
        p = corrected(ab).softmax(1)
        mean = (p * jacobian).sum(2)
        gradient = ((p - labels) * jacobian).sum(2) @ weight + _RIDGE * (ab - start)
        hessian = (weight.unsqueeze(1) * p * jacobian).flatten(1) @ jacobian.flatten(1).T - (weight * mean) @ mean.T
        step = torch.linalg.solve(hessian + _RIDGE * torch.eye(2).to(z), gradient)
        while loss(ab - step) > loss(ab) and step.abs().max() > 1e-9:
            step = step / 2
        ab = ab - step
    return ab[0].item(), ab[1].item()
