"""X-DER: DER++ with separate softmaxes for past and current classes; stored logits learn later classes (RPC form).

Paper: Boschini et al., TPAMI 2022, arXiv 2201.00766.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from moca.batch import Batch
from moca.learners.base import Filling, Losses, among
from moca.models.auxiliary import auxiliary_logits
from moca.parts import option

if TYPE_CHECKING:
    from moca.streams import Task


class XDER(Filling):
    """New samples compete within their task, replayed ones within the past; nobody is to be mistaken for the future.

    The memory is written at the end of a task, as many samples of each class, whenever it came. The logits that a
    sample was stored with say nothing of classes that came later: those of now are put in their place, below the one of
    its own class.
    """

    alpha: float = option(0.1, "weight of the stored logits", ge=0)
    beta: float = option(0.5, "weight of the stored labels", ge=0)
    gamma: float = option(0.85, "implanted logits reach at most this share of the one of the sample's class", ge=0)
    eta: float = option(0.1, "weight of the margins to classes of other times", ge=0)
    margin: float = option(0.3, "by which the best logit of a sample's own task is to be above theirs", ge=0)
    past: bool = option(True, "the same margin of new samples to the past")

    draws = 2
    keeps = ("logits",)
    expected_adjust = 0.0
    remembers = ("drawn",)
    recipes = {
        "offline": {"lr": 0.03, "schedule": "steps:at=35,45,by=0.2", "head": "simplex"},
        "online": {"lr": 0.03, "head": "simplex"},
        "small": {"lr": 0.03, "head": "simplex", "alpha": 0.3, "beta": 1.0, "eta": 0.15},
    }

    def prepare(self) -> None:
        """How often each slot was drawn in this task."""
        super().prepare()
        self.drawn = torch.zeros(0 if self.memory is None else self.memory.size, device=self.came.device)

    def begin_task(self, task: Task) -> None:
        """Nothing was drawn in it yet."""
        super().begin_task(task)
        if self.memory is not None:
            self.drawn = self.drawn[: self.memory.size]  # one that is bounded in bytes may have shrunk
        self.drawn.zero_()

    def losses(self, new: Batch, *replays: Batch) -> Losses:
        """CE(new | its task) + alpha MSE(logits, stored) + beta CE(replay | the past) + eta times what the margins to
        the future, and of new samples to the past, lack."""
        losses = {"new": F.cross_entropy(among(new.logits, self.current), new.y)}
        margins = [self._margins(new.logits, self.current)]
        if replays:
            dark, labelled = replays
            now = [self.model.classify(replay.features) for replay in replays]
            losses["logits"] = self.alpha * F.mse_loss(now[0], dark.logits)
            moved = self.model.classify(self.perturbed(labelled, new))
            losses["replay"] = self.beta * F.cross_entropy(among(moved, self.old), labelled.y)
            for replay, logits in zip(replays, now, strict=True):
                margins.append(self._margins(logits, self.came == self.came[replay.y].unsqueeze(1)))
                self._implant(replay, logits.detach())
        losses["future"] = self.eta * _mean_above_zero(torch.cat(margins))
        if self.past and not self.first_task:
            past = among(new.logits, self.old & ~self.current).amax(1).detach()
            losses["past"] = self.eta * _mean_above_zero(past + self.margin - among(new.logits, self.current).amax(1))
        return losses

    def _margins(self, logits: Tensor, own: Tensor) -> Tensor:
        """What each sample lacks of the margin between its own task and the classes yet to come, if there are any."""
        future = among(logits, ~self.seen).amax(1) + self.margin
        return torch.where(self.seen.all(), 0, future - among(logits, own).amax(1))

    @torch.no_grad()
    def _implant(self, replay: Batch, logits: Tensor) -> None:
        """Refresh what is stored, the k-th time that a sample is drawn in a task with a chance of 1 in k."""
        if self.memory is None:
            return
        self.drawn[replay.slot] += 1
        chosen = self.random.uniform(len(replay.y)) * self.drawn[replay.slot] < 1
        stored = self.memory.fields["logits"]
        fresh = implanted(stored[replay.slot], logits, replay.y, ~self.old, self.gamma)
        stored[replay.slot] = torch.where(chosen.unsqueeze(1), fresh, stored[replay.slot])

    def end_task(self, samples: Batch) -> None:
        """The same number of samples of each class; new ones come with their logits, old ones are refreshed."""
        assert self.memory is not None
        device, kept = self.came.device, self.memory.all()
        stay, index = self._shares(kept.get("y", self.came[:0]), samples.y, self.memory.size)
        y, image = samples.y[index].to(device), samples.image[index.to(samples.image.device)].to(device)
        logits = self._said(image)
        new = {"image": image, "y": y, "logits": implanted(logits, logits, y, self.old & ~self.current, self.gamma)}
        if len(stay):
            old = {name: values[stay] for name, values in kept.items()}
            now = self._said(old["image"])
            old["logits"] = implanted(old["logits"], now, old["y"], ~self.old, self.gamma)
            new = {name: torch.cat([old[name], values]) for name, values in new.items()}
        if (self.old & self.current).any():  # the first ones of a class stay: they must be of any task
            order = self.random.permutation(len(new["y"]))
            new = {name: values[order] for name, values in new.items()}
        self.memory.rewrite(**new)

    def _said(self, images: Tensor) -> Tensor:
        """The logits of raw images as in training, which they are to be compared with: normalised by the statistics of
        the images themselves. With running statistics old ones would be taken for classes of now."""
        self.model.train()
        logits = self.asked(partial(auxiliary_logits, self.model), images)
        self.model.eval()
        return logits

    def _shares(self, stored: Tensor, y: Tensor, size: int) -> tuple[Tensor, Tensor]:
        """Which rows stay, of the labels that are stored, and which are taken, by chance, of those that came; classes
        mixed.

        Each class has the same part. In that of one that came again, every sample that ever came has the same chance.
        """
        room, fresh = self.parts(y)
        classes, coming = y.unique().tolist(), y.bincount(minlength=len(self.came)).tolist()
        stay, taken = [stored[:0]], {}
        for c in self.old.nonzero().flatten().tolist():
            stay.append((stored == c).nonzero().flatten()[: room - fresh[c]])
            taken[c] = min(coming[c], room - len(stay[-1]))
        left, first = size - sum(map(len, stay)) - sum(taken.values()), [c for c in classes if c not in taken]
        luck = self.random.permutation(len(first)).tolist()
        for place, c in enumerate(first):
            taken[c] = left // len(first) + (luck[place] < left % len(first))
        chosen = []
        for c in classes:
            of_class = (y == c).nonzero().flatten()
            order = self.random.permutation(len(of_class)).to(y.device)
            chosen.append(of_class[order[: taken[c]]])
        return self._mixed(torch.cat(stay)), self._mixed(torch.cat(chosen))

    def _mixed(self, rows: Tensor) -> Tensor:
        return rows[self.random.permutation(len(rows)).to(rows.device)]


def _mean_above_zero(values: Tensor) -> Tensor:
    """The mean of those that are above it; 0 where none is."""
    return values.clamp_min(0).sum() / (values > 0).sum().clamp_min(1)


def implanted(stored: Tensor, now: Tensor, y: Tensor, classes: Tensor, gamma: float) -> Tensor:
    """The stored logits with those of `classes` as they are now. Where one of these is above that of the sample's own
    class, all are scaled so that the highest is `gamma` times that one."""
    own, highest = stored.gather(1, y.unsqueeze(1)), among(now, classes).amax(1, keepdim=True)
    above = (highest > own) & (highest > 0)
    scale = torch.where(above, gamma * own.clamp_min(0) / highest.clamp_min(1e-12), 1)
    return torch.where(classes, scale * now, stored)
