"""Rules for the BatchNorm statistics used at test time: one training run, tested under every rule.

Running statistics never influence training. So after each task, with the weights as they are, the statistics of new
batches and those of replayed batches are estimated separately, and a rule says how the two are mixed:

n, nb, nbb, nbbn, b, ...  the running statistics that these passes, in this order in every step, would give
classes                   replayed batches are weighted by the share of old classes among those seen so far
half                      both have the same weight
...+spread                the variance includes the distance of the two means, as in one batch of both
memory                    computed from all stored samples, without augmentation, in large batches
own                       those that the run itself was tested with

`--record rules` tests a run under all of them. In the first task, and while nothing is stored, rules with replayed
batches are the same as n.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import torch
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from moca.batch import Batch
from moca.data import Transform
from moca.models import Model
from moca.models.batch_norm.batches import batches_apart
from moca.random import Random

if TYPE_CHECKING:
    from moca.engine.trainer import Trainer

OWN = "own"
RULES = ("n", "nb", "nbb", "nbbb", "nbbn", "b", "classes", "half+spread", "classes+spread", "memory")
_LARGE = 500
"""The largest number of stored images per pass under the rule `memory`."""


class Moments(NamedTuple):
    """Mean and unbiased variance of the channels of a layer."""

    mean: Tensor
    var: Tensor


Statistics = Mapping[str, Moments]
"""Moments by the name of the layer."""


class Rule(NamedTuple):
    """How the statistics of new and of replayed batches are mixed for testing."""

    mix: str
    """Passes in order, or `classes`, `half` or `memory`."""
    spread: bool = False

    @classmethod
    def of(cls, name: str) -> Self:
        """Parse the name of a rule."""
        mix, _, spread = name.partition("+")
        return cls(mix, bool(spread))

    def share(self, momentum: float | None, old: float) -> float:
        """The weight of replayed batches; `old` is the share of old classes among those seen so far."""
        if self.mix == "classes":
            return old
        return 0.5 if self.mix == "half" else share_of_replay(self.mix, momentum)


N = Rule("n")


def share_of_replay(passes: str, momentum: float | None = 0.1) -> float:
    """The limit of the share of b in running statistics r <- (1 - m) r + m s, if every step makes these passes. Without
    momentum, all batches have the same weight, and it is the share of the letter b."""
    weights = [(1 - (momentum or 0.0)) ** age for age in range(len(passes))]
    return sum(w for w, letter in zip(weights, reversed(passes), strict=True) if letter == "b") / sum(weights)


def mixed(new: Moments, replayed: Moments, share: float, spread: bool) -> Moments:
    """The weighted mean of both; with `spread`, the variance is that of the mixture."""
    mean, var = ((1 - share) * n + share * b for n, b in zip(new, replayed, strict=True))
    return Moments(mean, var + share * (1 - share) * (new.mean - replayed.mean) ** 2 if spread else var)


def layers_moved(model: Model) -> dict[str, _BatchNorm]:
    """The BatchNorm layers, by name, whose running statistics training updates; for a model in training mode."""
    return {
        name: layer
        for name, layer in model.named_modules()
        if isinstance(layer, _BatchNorm) and layer.training and layer.track_running_stats
    }


@torch.no_grad()
def averaged(model: Model, batches: Iterable[Tensor]) -> Statistics:
    """The plain average of the statistics of these batches, each in a forward pass of its own in training mode.

    The passes go through a copy of the model, which itself is not changed.
    """
    network = deepcopy(model).train()
    layers = layers_moved(network)
    for layer in layers.values():
        layer.reset_running_stats()
        layer.momentum = None  # the average of all batches
    with torch.random.fork_rng(_gpus(model)), network.one_step():  # an encoder may have dropout
        for x in batches:
            with batches_apart([len(x)]):
                network.encode(x)
    return {name: _held(layer) for name, layer in layers.items()}


def _held(layer: _BatchNorm) -> Moments:
    assert layer.running_mean is not None
    assert layer.running_var is not None
    return Moments(layer.running_mean, layer.running_var)


def _gpus(model: Model) -> list[torch.device]:
    device = next(model.parameters()).device
    return [device] if device.type == "cuda" else []


@contextmanager
def holding(model: Model, statistics: Statistics) -> Iterator[None]:
    """Inside, the model has these running statistics, copied in place because CUDA graphs refer to the tensors."""
    layers: dict[str, Any] = dict(model.named_modules())
    held = {name: _held(layers[name]) for name in statistics}
    before = {name: Moments(*(tensor.clone() for tensor in moments)) for name, moments in held.items()}
    try:
        _copy(statistics, held)
        yield
    finally:
        _copy(before, held)


@torch.no_grad()
def _copy(values: Statistics, places: Statistics) -> None:
    for name, moments in places.items():
        for place, value in zip(moments, values[name], strict=True):
            place.copy_(value)


class Estimates:
    """Estimates the BatchNorm statistics of new batches, replayed batches and the memory at the end of a task.

    The trainer's state is not changed, nor are its random numbers.
    """

    def __init__(self, trainer: Trainer, batches: int) -> None:
        """`batches` is the number of batches of each kind to average over."""
        self.trainer, self.learning, self.batches = trainer, trainer.learning, batches
        self.model, self.learner, self.memory = self.learning.model, self.learning.learner, self.learning.memory

    def meant(self, rule: Rule) -> Rule:
        """The rule, or n where it does not apply: every rule if nothing is stored, and those with replayed batches in
        the first task or if BatchNorm normalises new and replayed samples as one batch."""
        apart = rule.mix == "memory" or not (self.learner.first_task or self.learner.together)
        return rule if self.stores and apart else N

    def under(self, rule: Rule) -> Statistics:
        """The statistics under a rule that applies (see `meant`)."""
        if rule == N:
            return self.new
        if rule.mix == "memory":
            return self._stored()
        old = self.learner.old.sum().item() / self.learner.seen.sum().item()
        layers: dict[str, Any] = dict(self.model.named_modules())
        return {
            name: mixed(new, self.replayed[name], rule.share(layers[name].momentum, old), rule.spread)
            for name, new in self.new.items()
        }

    @cached_property
    def new(self) -> Statistics:
        """Statistics of batches of the current task, joined with replayed samples if BatchNorm sees one batch."""
        if self.learner.together and self.stores:
            return averaged(self.model, (torch.cat([self.learner.see(n).x, b]) for n, b in self._replays()))
        return averaged(self.model, (self.learner.see(new).x for new in self._news()))

    @cached_property
    def replayed(self) -> Statistics:
        """Statistics of replayed batches."""
        return averaged(self.model, (x for _, x in self._replays()))

    def _stored(self) -> Statistics:
        assert self.memory is not None
        images = self.memory.all()["image"]
        parts = images.tensor_split(-(-len(images) // _LARGE))
        return averaged(self.model, map(self.learner.view, parts))

    @property
    def stores(self) -> bool:
        """Whether the memory holds images to replay."""
        return self.memory is not None and len(self.memory) > 0 and "image" in self.memory.fields

    def _news(self) -> Iterator[Batch]:
        """Random batches of the current task."""
        feed, augment = self.trainer.feed, self._augment("augment")
        index = self.trainer.schedule.current.train.to(feed.order_device)
        random = self._random("order", feed.order_device)
        for _ in range(self.batches):
            image, y = feed(index[random.permutation(len(index))[: self.trainer.settings.batch]])
            yield Batch(image=image, x=augment(image), y=y)

    def _replays(self) -> Iterator[tuple[Batch, Tensor]]:
        """New batches, each with replayed images: drawn as the learner draws them, augmented as in training."""
        assert self.memory is not None
        draw, augment = self.learner.draw(self._random("draw"), self.learner), self._augment("augment replayed")
        count = min(self.learning.replay_size, len(self.memory))
        for new in self._news():
            yield new, augment(self.memory.fields["image"][draw.choose(count, self.memory, new)])

    def _augment(self, purpose: str) -> Transform:
        return Transform(
            self.trainer.schedule.stream.protocol, self._random(purpose), augment=self.trainer.settings.augment
        )

    def _random(self, purpose: str, device: torch.device | None = None) -> Random:
        """Separate random numbers, always the same for this task."""
        seed, task = self.trainer.settings.seed.of("augment"), self.trainer.schedule.task
        return Random(seed, f"batch norm/{purpose}/{task}", device or self.learning.device)
