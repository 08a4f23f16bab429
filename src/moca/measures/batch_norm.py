"""Which BatchNorm statistics the test sees: one training run, tested under every rule.

Running statistics never influence training. So after each task, with the weights as they are, those that new batches
give and those that replayed batches give are estimated apart, and a rule is how the two are mixed:

n, nb, nbb, nbbn, b, ...  what these passes, one after the other in every step, leave in the running statistics
classes                   the replayed count as much as old classes are among those that came
half                      both count the same
...+spread                with the distance of the two means in the variance, as a batch of both together has it
memory                    taken afresh from all that is stored, not augmented, in large batches
own                       what the run itself was tested with

`--record rules` tests a run under all of them. In the first task, and while nothing is stored, rules with replayed
batches are n.
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
from moca.errors import MocaError
from moca.models import Model
from moca.models.batch_norm.batches import batches_apart
from moca.random import Random

if TYPE_CHECKING:
    from moca.engine.trainer import Trainer

OWN = "own"
RULES = ("n", "nb", "nbb", "nbbb", "nbbn", "b", "classes", "half+spread", "classes+spread", "memory")
_LARGE = 500
"""Most stored images in a pass where the statistics are taken afresh from the memory."""


class Moments(NamedTuple):
    """Mean and unbiased variance of the channels of a layer."""

    mean: Tensor
    var: Tensor


Statistics = Mapping[str, Moments]
"""By the name of the layer."""


class Rule(NamedTuple):
    """How the statistics of new and of replayed batches become those that the test sees."""

    mix: str
    """Passes in order, `classes`, `half` or `memory`."""
    spread: bool = False

    @classmethod
    def of(cls, name: str) -> Self:
        """The rule that has this name."""
        mix, plus, spread = name.partition("+")
        known = mix in ("classes", "half") or (mix != "" and set(mix) <= set("nb"))
        if name != "memory" and (not known or (plus and spread != "spread")):
            raise MocaError(
                f"there is no rule '{name}'; use passes such as nbb, classes or half, each also with +spread, or memory"
            )
        return cls(mix, bool(plus))

    def share(self, momentum: float | None, old: float) -> float:
        """Of the replayed batches; `old` is the share of old classes among those that came."""
        if self.mix == "classes":
            return old
        return 0.5 if self.mix == "half" else share_of_replay(self.mix, momentum)


N = Rule("n")


def share_of_replay(passes: str, momentum: float | None = 0.1) -> float:
    """The share of b in running statistics r <- (1 - m) r + m s that these passes move, step after step for ever; where
    all batches count the same (no momentum), its share in the letters."""
    weights = [(1 - (momentum or 0.0)) ** age for age in range(len(passes))]
    return sum(w for w, letter in zip(weights, reversed(passes), strict=True) if letter == "b") / sum(weights)


def mixed(new: Moments, replayed: Moments, share: float, spread: bool) -> Moments:
    """The weighted mean of both; with the spread, the variance is that of a mixture."""
    mean, var = ((1 - share) * n + share * b for n, b in zip(new, replayed, strict=True))
    return Moments(mean, var + share * (1 - share) * (new.mean - replayed.mean) ** 2 if spread else var)


def layers_moved(model: Model) -> dict[str, _BatchNorm]:
    """The BatchNorm layers that training moves the statistics of, by name; of a model in training mode."""
    return {
        name: layer
        for name, layer in model.named_modules()
        if isinstance(layer, _BatchNorm) and layer.training and layer.track_running_stats
    }


@torch.no_grad()
def averaged(model: Model, batches: Iterable[Tensor]) -> Statistics:
    """The plain average of the statistics that these batches give, each passing by itself, in training mode.

    A copy of the model passes them, so that nothing of the model moves.
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
    """Inside, the model's running statistics are these: values in the same tensors, which recorded graphs know."""
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
    """What new batches, replayed batches and the memory give at the end of a task.

    Nothing of the trainer moves on, its random numbers neither.
    """

    def __init__(self, trainer: Trainer, batches: int) -> None:
        """`batches` are those of each kind that are averaged over."""
        self.trainer, self.learning, self.batches = trainer, trainer.learning, batches
        self.model, self.learner, self.memory = self.learning.model, self.learning.learner, self.learning.memory

    def meant(self, rule: Rule) -> Rule:
        """The rule, or n where what it mixes is not there: with nothing stored, of replayed batches in the first task,
        and where BatchNorm takes new and replayed samples for one batch."""
        apart = rule.mix == "memory" or not (self.learner.first_task or self.learner.together)
        return rule if self.stores and apart else N

    def under(self, rule: Rule) -> Statistics:
        """The statistics under a rule that means itself."""
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
        """Of batches of the current task; where BatchNorm takes replayed samples with them, of both together."""
        if self.learner.together and self.stores:
            return averaged(self.model, (torch.cat([self.learner.see(n).x, b]) for n, b in self._replays()))
        return averaged(self.model, (self.learner.see(new).x for new in self._news()))

    @cached_property
    def replayed(self) -> Statistics:
        """Of draws from the memory."""
        return averaged(self.model, (x for _, x in self._replays()))

    def _stored(self) -> Statistics:
        assert self.memory is not None
        images = self.memory.all()["image"]
        parts = images.tensor_split(-(-len(images) // _LARGE))
        return averaged(self.model, map(self.learner.view, parts))

    @property
    def stores(self) -> bool:
        """Whether there is anything to replay."""
        return self.memory is not None and len(self.memory) > 0 and "image" in self.memory.fields

    def _news(self) -> Iterator[Batch]:
        """Batches of the current task, each drawn afresh."""
        feed, augment = self.trainer.feed, self._augment("augment")
        index = self.trainer.schedule.current.train.to(feed.order_device)
        random = self._random("order", feed.order_device)
        for _ in range(self.batches):
            image, y = feed(index[random.permutation(len(index))[: self.trainer.settings.batch]])
            yield Batch(image=image, x=augment(image), y=y)

    def _replays(self) -> Iterator[tuple[Batch, Tensor]]:
        """New batches, and what is replayed beside each: drawn as the learner draws, augmented as in training."""
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
        """Numbers of its own, the same whenever this task is looked at."""
        seed, task = self.trainer.settings.seed.of("augment"), self.trainer.schedule.task
        return Random(seed, f"batch norm/{purpose}/{task}", device or self.learning.device)
