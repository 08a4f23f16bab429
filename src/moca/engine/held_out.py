"""Samples that no step learns from: after each task they say how far its classes lead, for `adjust=auto`."""

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
"""One slot of the memory in so many is for them, and of a class of a task at most one sample in so many."""
_EACH = 5
"""Samples of a class of a task that are held out, at most."""
_FAR = 100.0
"""A multiple that is beyond any other."""


def holding_out(stream: Stream, learner: Learner, seed: int) -> Stream:
    """The stream with some samples of each task held out of its training, where the learner is to be adjusted by
    them."""
    if not learner.holds_out:
        return stream
    tasks = [_without(stream.train.labels, task, Random(seed, f"held/{n}")) for n, task in enumerate(stream)]
    return Stream(stream.dataset, tasks, stream.train, stream.test, stream.names)


def _without(labels: Tensor, task: Task, random: Random) -> Task:
    shuffled = task.train[random.permutation(len(task.train))]
    of_class = _rank(labels[shuffled])
    room = (labels[shuffled].bincount() // _SHARE).clamp_max(_EACH)
    held = of_class < room[labels[shuffled]]
    return replace(task, train=shuffled[~held].sort().values, held=shuffled[held])


def _rank(y: Tensor) -> Tensor:
    """The number of each sample among those of its class, from 0 on."""
    order = y.argsort(stable=True)
    first = torch.cat([y.new_zeros(1), y.bincount().cumsum(0)])[y[order]]
    return torch.empty_like(y).scatter_(0, order, torch.arange(len(y), device=y.device) - first)


class HeldOut(Stateful):
    """Some samples of every class, in a part of the memory's slots, and the multiple of the lead that fits them."""

    remembers = ("images", "y", "multiple", "random")

    def __init__(self, memory: int, random: Random, expected: float) -> None:
        """For a memory of so many slots in all; `expected` is the multiple where nothing else is known."""
        if memory < 2:
            raise MocaError("adjust=auto keeps one sample to fit to beside those to replay; use a memory of 2 or more")
        self.size, self.random, self.expected = max(1, memory // _SHARE), random, expected
        self.images: Tensor | None = None
        self.y: Tensor | None = None
        self.multiple = expected

    def end_task(self, learner: Learner, images: Tensor, y: Tensor) -> None:
        """Take in what was held out of a task that has been learnt, fit the multiple to all there is, then keep as much
        as there is room for: one of every class, then another of every class, ...; which ones is left to chance."""
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
        """Have the learner predict by it."""
        learner.adjusts_by = self.multiple

    def forget(self, number: int) -> None:
        """Drop the samples of a class; those behind it move up."""
        if self.y is not None:
            self.drop(self.y == number)
            self.y = self.y - (self.y > number).long()

    def drop(self, gone: Tensor) -> None:
        """Drop some of the samples."""
        if self.images is not None and self.y is not None:
            self.images, self.y = self.images[~gone], self.y[~gone]


def fitted(scores: Tensor, y: Tensor, lead: Tensor, seen: Tensor, expected: float = 1.0) -> float | None:
    """The multiple of the lead that, once taken, leaves these samples most likely, every class that was seen counting
    the same: with it as much probability goes to new classes as they are of all. Few samples leave it near what is
    expected, as if it were normal around that with a standard deviation of 1. None where no sample is old, or none
    new."""
    new, old = lead > 0, seen & (lead == 0)
    count, of_new = y.bincount(minlength=len(lead)), new[y].double()
    if of_new.min() == of_new.max():
        return None
    # Classes that have samples stand for those of their kind that have none.
    of_new_class, of_old_class = (kind.sum() / (kind & (count > 0)).sum() for kind in (new, old))
    stands_for = torch.where(new, of_new_class, of_old_class)
    weight = (stands_for / count)[y].double()
    weight *= weight.sum() / weight.square().sum()  # they sum to as many samples as they are worth
    z, most = scores.double(), float(lead.max())
    margin = z[:, new].logsumexp(1) - z[:, old].logsumexp(1)
    low, high = -_FAR, _FAR
    for _ in range(60):  # the slope of the loss rises with the multiple, so that halving finds where it is 0
        multiple = (low + high) / 2
        slope = most * (weight @ (of_new - (margin - multiple * most).sigmoid())) + multiple - expected
        low, high = (multiple, high) if slope < 0 else (low, multiple)
    return multiple
