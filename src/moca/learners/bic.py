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
"""Holds the correction where few samples would let it go to infinity."""


class Training(Uniform):
    """Uniform among the samples that are not held out."""

    def eligible(self, memory: Memory) -> Tensor:
        """Rows to learn from."""
        return ~self.learner.held_out(memory.fields["image"][: memory.size])  # type: ignore[no-any-return]


class BiC(Distilling):
    """ER with distillation; after each task the logits z of its classes become a z + b, with the a and b that fit held-
    out samples best. A sample is held out, as new and in the memory alike, if its bytes sum to a multiple of `hold`."""

    hold: int = option(10, "one sample in so many is held out of training, to fit the correction", ge=2)
    temperature: float = option(2.0, "of the distilled softmax", gt=0)

    draw = Training
    expected_adjust = 0.0
    recipes = {"small": {"hold": 4}}
    remembers = ("scale", "shift", "share")

    def prepare(self) -> None:
        """Nothing is corrected yet."""
        super().prepare()
        self.scale = torch.ones(len(self.came), device=self.came.device)
        self.shift = torch.zeros_like(self.scale)
        self.share = 0.0

    def begin_task(self, task: "Task") -> None:
        """The share of old classes, by which they are distilled; one that comes again counts on both sides."""
        super().begin_task(task)
        old = int(self.old.sum())
        self.share = old / (old + len(task.classes))

    def held_out(self, images: Tensor) -> Tensor:
        """Which raw images, or vectors, are never learnt from: the sum of their bytes says it."""
        return images.flatten(1).contiguous().view(torch.uint8).sum(1, dtype=torch.int64) % self.hold == 0

    def losses(self, new: Batch, *replays: Batch) -> Losses:
        """(1 - s) (CE(new) + CE(replay)) + s KL over old classes on both, s the share of old classes."""
        losses = {"new": (1 - self.share) * self._mean(new, self._surprise(new.logits, new.y))}
        for replay in replays:
            logits = self.model.classify(self.perturbed(replay, new))
            losses["replay"] = (1 - self.share) * self._mean(replay, self._surprise(logits, replay.y))
        if not self.first_task:
            kept = [self._mean(new, self._far(new, new.logits))]
            kept += [self._mean(replay, self._far(replay, self.model.classify(replay.features))) for replay in replays]
            losses["distil"] = self.share * torch.stack(kept).sum()
        return losses

    def _mean(self, batch: Batch, each: Tensor) -> Tensor:
        """Over the samples to learn from."""
        return mean_over(~self.held_out(batch.image), each)

    def _corrected(self, logits: Tensor) -> Tensor:
        return self.scale * logits + self.shift

    def _surprise(self, logits: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(self._corrected(logits), y, reduction="none")

    def _far(self, batch: Batch, logits: Tensor) -> Tensor:
        """KL from the teacher's softmax over old classes."""
        with torch.no_grad():
            told = self.teacher(batch.x)
        return divergence(self._corrected(told), self._corrected(logits), self.old, self.temperature)

    def end_task(self, samples: Batch) -> None:
        """Fit the correction of the new classes to what was held out: old samples stored, new ones of the task."""
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
        """The logits, corrected."""
        return self._corrected(logits)

    def grow(self, classes: int) -> None:
        """Room for more classes."""
        super().grow(classes)
        self.scale, self.shift = longer(self.scale, classes, 1), longer(self.shift, classes)


@torch.no_grad()
def fitted(logits: Tensor, y: Tensor, seen: Tensor, fresh: Tensor) -> tuple[float, float]:
    """The a and b for which a z + b of fresh classes, beside z of others, has the least cross-entropy, every class
    counting the same. The problem is convex, so that Newton's method finds them."""
    z, new = logits.double(), fresh[seen].double()
    right = F.one_hot((seen.cumsum(0) - 1)[y], len(new)).double()
    weight = right @ (1 / right.sum(0).clamp_min(1))
    weight = weight / weight.sum()
    ways = torch.stack([z * new, new.expand_as(z)])  # what a and b add to each logit
    start = torch.tensor([1.0, 0.0], dtype=torch.float64, device=z.device)

    def corrected(ab: Tensor) -> Tensor:
        return z * (1 - new) + ab[0] * ways[0] + ab[1] * ways[1]

    def loss(ab: Tensor) -> Tensor:
        surprise = -(right * corrected(ab).log_softmax(1)).sum(1)
        return weight @ surprise + _RIDGE / 2 * (ab - start).square().sum()

    ab = start
    for _ in range(30):
        p = corrected(ab).softmax(1)
        mean = (p * ways).sum(2)
        slope = ((p - right) * ways).sum(2) @ weight + _RIDGE * (ab - start)
        spread = (weight.unsqueeze(1) * p * ways).flatten(1) @ ways.flatten(1).T - (weight * mean) @ mean.T
        step = torch.linalg.solve(spread + _RIDGE * torch.eye(2).to(z), slope)
        while loss(ab - step) > loss(ab) and step.abs().max() > 1e-9:
            step = step / 2
        ab = ab - step
    return ab[0].item(), ab[1].item()
