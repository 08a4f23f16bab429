"""Samples held out of training, on which `adjust=auto` measures the bias towards new classes after each task."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from moca.errors import MocaError
from moca.learners import Learner
from moca.random import Random
from moca.state import Stateful
from moca.streams import Stream, Task

_SHARE = 10
"""One in this many memory slots is for held-out samples, and at most one in this many samples of a class in a task is
held out."""
_EACH = 5
"""Most samples held out of each class of a task."""
_FAR = 100.0
"""Bound for the search of the multiple."""


def holding_out(stream: Stream, learner: Learner, seed: int) -> Stream:
    """The stream with some samples of each task held out of training, if the learner needs them for `adjust=auto`."""
    if not learner.holds_out:
        return stream
    tasks = [_without(stream.train.labels, task, Random(seed, f"held/{n}")) for n, task in enumerate(stream)]
    return stream.with_tasks(tasks)


def _without(labels: Tensor, task: Task, random: Random) -> Task:
    shuffled = task.train[random.permutation(len(task.train))]
    of_class = _rank(labels[shuffled])
    room = (labels[shuffled].bincount() // _SHARE).clamp_max(_EACH)
    held = of_class < room[labels[shuffled]]
    return replace(task, train=shuffled[~held].sort().values, held=shuffled[held])


def _rank(y: Tensor) -> Tensor:
    """The position of each sample among those of its class, from 0."""
    order = y.argsort(stable=True)
    first = torch.cat([y.new_zeros(1), y.bincount().cumsum(0)])[y[order]]
    return torch.empty_like(y).scatter_(0, order, torch.arange(len(y), device=y.device) - first)


class HeldOut(Stateful):
    """Held-out samples of every class, in a part of the memory's slots, and the multiple of the lead fitted to them.

    The lead (`Learner.lead`) is the bias of the logits towards new classes that replay is expected to cause.
    """

    remembers = ("images", "y", "multiple", "random")

    def __init__(self, memory: int, random: Random, expected: float) -> None:
        """`memory` is the total number of slots; `expected` is the multiple assumed before anything is fitted."""
        if memory < 2:
            raise MocaError("adjust=auto keeps one sample to fit to beside those to replay; use a memory of 2 or more")
        self.size, self.random, self.expected = max(1, memory // _SHARE), random, expected
        self.images: Tensor | None = None
        self.y: Tensor | None = None
        self.multiple = expected

    def end_task(self, learner: Learner, images: Tensor, y: Tensor) -> None:
        """Add the held-out samples of the task just learnt, fit the multiple to all, then keep as many as fit.

        They are kept in rounds, one of every class in each, and are chosen at random within a class.
        """
        device = learner.came.device
        images, y = images.to(device), y.to(device)
        if self.images is not None and self.y is not None:
            images, y = torch.cat([self.images, images]), torch.cat([self.y, y])
        if not len(y):
            return
        multiple = fitted(learner.asked(learner.predict, images), y, learner.lead, learner.seen, self.expected)
        self.multiple = self.multiple if multiple is None else multiple
        order = self.random.permutation(len(y))
        kept = order[_rank(y[order]).argsort(stable=True)[: self.size]]
        self.images, self.y = images[kept], y[kept]
        self.adjust(learner)

    def adjust(self, learner: Learner) -> None:
        """Set the multiple with which the learner adjusts its predictions."""
        learner.adjusts_by = self.multiple

    def forget(self, number: int) -> None:
        """Drop the samples of a class; the labels above it move down by one."""
        if self.y is not None:
            self.drop(self.y == number)
            self.y = self.y - (self.y > number).long()

    def drop(self, gone: Tensor) -> None:
        """Drop the samples where `gone` is true."""
        if self.images is not None and self.y is not None:
            self.images, self.y = self.images[~gone], self.y[~gone]


def fitted(scores: Tensor, y: Tensor, lead: Tensor, seen: Tensor, expected: float = 1.0) -> float | None:
    """The multiple of the lead whose subtraction maximises the likelihood of these samples, with equal weight for every
    class seen.

    New classes then get as much probability as their share of all classes. A normal prior around `expected` with
    standard deviation 1 keeps the multiple near it if there are few samples. None if no sample is old, or none is new.
    """
    new, old = lead > 0, seen & (lead == 0)
    count, of_new = y.bincount(minlength=len(lead)), new[y].double()
    if of_new.min() == of_new.max():
        return None
    # Classes with samples also stand for those of their group (new or old) without any.
    of_new_class, of_old_class = (kind.sum() / (kind & (count > 0)).sum() for kind in (new, old))
    stands_for = torch.where(new, of_new_class, of_old_class)
    weight = (stands_for / count)[y].double()
    weight *= weight.sum() / weight.square().sum()  # so that they sum to the effective sample size
    z, most = scores.double(), float(lead.max())
    margin = z[:, new].logsumexp(1) - z[:, old].logsumexp(1)
    low, high = -_FAR, _FAR
    for _ in range(60):  # the slope of the loss increases with the multiple, so bisection finds its zero
        multiple = (low + high) / 2
        slope = most * (weight @ (of_new - (margin - multiple * most).sigmoid())) + multiple - expected
        low, high = (multiple, high) if slope < 0 else (low, multiple)
    return multiple
