"""iCaRL: incremental classifier and representation learning; exemplars by herding, nearest class mean.

Paper: Rebuffi et al., CVPR 2017, arXiv 1611.07725.
"""

from typing import TYPE_CHECKING, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from moca.batch import Batch
from moca.learners.base import Distilling, Filling, Losses, mean_over
from moca.memory import Past, Reservoir
from moca.parts import option
from moca.sphere import project
from moca.state import longer

if TYPE_CHECKING:
    from moca.streams import Task


class ICaRL(Filling, Distilling):
    """Features are trained by binary cross-entropy and distillation; a sample is assigned to the nearest class mean.

    The original trains on the union of new data and exemplars. Here each step has a batch of each, weighted by how many
    there are: the same mean, with less variance. In the online form, as in AML's comparison, new samples are trained by
    their labels, old ones are only distilled, and the memory is a reservoir.
    """

    form: Literal["offline", "online"] = option(
        "offline", "exemplars by herding at the end of a task, or a reservoir whose old samples are only distilled"
    )
    unit: bool = option(True, "unit-length features for herding and class means, as in the paper; off: as in the code")

    has_logits = False
    remembers = ("means", "new_share")
    refuses = "its replayed samples are learnt from the outputs of the old network, not from labels"
    recipes = {
        "offline": {"head": "linear", "optimiser": "sgd:weight_decay=1e-5"},
        "cifar100/offline": {"lr": 0.3},
        "tinyimagenet/offline": {"lr": 0.03},
        "online": {"form": "online", "head": "linear"},
    }

    def check(self) -> None:
        """In the online form, use a reservoir and replay old classes first."""
        super().check()
        if self.form == "online":
            self.store, self.draw = Reservoir, Past

    def prepare(self) -> None:
        """Create the class means."""
        super().prepare()
        self.means = torch.zeros(len(self.came), self.model.head.weight.shape[1], device=self.came.device)
        self.new_share = 1.0

    def begin_task(self, task: "Task") -> None:
        """Compute `new_share`, the fraction of the training samples (the task's and the stored ones) that is new."""
        super().begin_task(task)
        assert self.memory is not None
        self.new_share = len(task.train) / (len(task.train) + len(self.memory))

    def losses(self, new: Batch, *replays: Batch) -> Losses:
        """BCE over the classes seen so far, averaged over the union of new data and exemplars."""
        if self.form == "online":
            return self._online(new, *replays)
        if not replays:
            return {"new": self._bce(new, new.logits)}
        (replay,) = replays
        replayed = self._bce(replay, self.model.classify(replay.features))
        return {"new": self.new_share * self._bce(new, new.logits), "replay": (1 - self.new_share) * replayed}

    def _bce(self, batch: Batch, logits: Tensor) -> Tensor:
        """BCE whose targets are the labels for the current task's classes, and the teacher's outputs for the others."""
        targets = F.one_hot(batch.y, len(self.came)).to(logits.dtype)
        if not self.first_task:
            with torch.no_grad():
                targets = torch.where(self.current, targets, self.teacher(batch.x).sigmoid())
        each = F.binary_cross_entropy_with_logits(logits, targets, reduction="none")
        return (each * self.seen).sum() / (len(batch.y) * self.seen.sum())

    def _online(self, new: Batch, *replays: Batch) -> Losses:
        """BCE summed over all classes; targets are the labels for new samples, the teacher's outputs for old ones."""
        targets = F.one_hot(new.y, len(self.came)).to(new.logits.dtype)
        losses = {"new": F.binary_cross_entropy_with_logits(new.logits, targets, reduction="sum") / len(new.y)}
        if replays and not self.first_task:
            (replay,) = replays
            assert replay.old is not None
            with torch.no_grad():
                targets = self.teacher(replay.x).sigmoid()
            logits = self.model.classify(replay.features)
            each = F.binary_cross_entropy_with_logits(logits, targets, reduction="none").sum(1)
            losses["replay"] = mean_over(replay.old, each)
        return losses

    def end_task(self, samples: Batch) -> None:
        """Choose exemplars of the new classes by herding, keep fewer of the old ones, and compute all class means."""
        assert self.memory is not None
        if self.form == "offline":
            self._herd(samples)
        stored = self.memory.all()
        for c in self.seen.nonzero().flatten().tolist():
            images = stored["image"][stored["y"] == c]
            self.means[c] = self._unit(self._features(images).mean(0)) if len(images) else 0

    def _herd(self, samples: Batch) -> None:
        """Rewrite the memory with equally many exemplars of each class. For a class that returned, earlier exemplars
        keep the share that earlier samples have among all samples of the class so far."""
        assert self.memory is not None
        room, fresh = self.parts(samples.y)
        stored = self.memory.all()
        images, labels = [], []
        for c in self.seen.nonzero().flatten().tolist():
            chosen = stored["image"][stored["y"] == c] if stored else samples.image[:0].to(self.came.device)
            chosen = chosen[: room - fresh[c]]
            if self.current[c]:
                of_class = samples.image[(samples.y == c).to(samples.image.device)]
                best = herding(self._features(of_class), room - len(chosen)).to(of_class.device)
                chosen = alternating(chosen, of_class[best].to(self.came.device))
            images.append(chosen)
            labels.append(torch.full((len(chosen),), c, device=self.came.device))
        self.memory.rewrite(image=torch.cat(images), y=torch.cat(labels))

    def predict(self, x: Tensor) -> Tensor:
        """The negative distance to each class mean; -inf for classes without one."""
        # Never by matrix products: they would halve the number of correct digits of small distances.
        distance = torch.cdist(
            self._unit(self.model.encode(x)), self.means, compute_mode="donot_use_mm_for_euclid_dist"
        )
        return torch.where(self.means.any(1), -distance, -torch.inf)

    def grow(self, classes: int) -> None:
        """Extend the means to this many classes."""
        super().grow(classes)
        self.means = longer(self.means, classes)

    def _features(self, images: Tensor) -> Tensor:
        """Features of raw images, without augmentation."""
        return self._unit(self.asked(self.model.encode, images))

    def _unit(self, h: Tensor) -> Tensor:
        return project(h) if self.unit else h


def alternating(one: Tensor, other: Tensor) -> Tensor:
    """Interleave the rows of both tensors, so that any first part has the same share of each; each keeps its order."""
    place = torch.cat([(torch.arange(len(rows)) + 0.5) / max(1, len(rows)) for rows in (one, other)])
    return torch.cat([one, other])[place.argsort(stable=True).to(one.device)]


def herding(features: Tensor, count: int) -> Tensor:
    """Indices of `count` rows, chosen greedily: each brings the mean of the chosen rows nearest to the mean of all."""
    mean, total = features.mean(0), torch.zeros_like(features[0])
    free = torch.ones(len(features), dtype=torch.bool, device=features.device)
    chosen = []
    for k in range(1, min(count, len(features)) + 1):
        distance = ((total + features) / k - mean).norm(dim=1)
        best = distance.masked_fill(~free, torch.inf).argmin()
        total, free[best] = total + features[best], False
        chosen.append(best)
    return torch.stack(chosen) if chosen else torch.zeros(0, dtype=torch.int64)
