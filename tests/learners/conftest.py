"""Small hand-made batches, and losses written out sample by sample."""

import math
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from moca import Batch, Model, Perturbation
from tests.engine import conftest as engine

CLASSES, FEATURES = 6, 3
make_trainer, train = engine.make_trainer, engine.train


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Model(nn.Identity(), nn.Linear(FEATURES, CLASSES))


@pytest.fixture
def make_batch(model):
    """A batch of features that can be differentiated; with the logits of now, or with others, stored before."""

    def make(labels, seed=0, stored=False, old=None):
        generator = torch.Generator().manual_seed(seed)
        h = torch.randn(len(labels), FEATURES, generator=generator).requires_grad_()
        logits = torch.randn(len(labels), CLASSES, generator=generator) if stored else model.classify(h)
        fields = {} if old is None else {"old": torch.tensor(old)}
        image = (40 * h.detach() + 128).to(torch.uint8)
        return Batch(image=image, x=h.detach(), y=torch.tensor(labels), features=h, logits=logits, **fields)

    return make


def cross_entropy(model, features, labels, competing=None):
    """-log of the softmax share of the right class, sample by sample, then their mean."""
    losses = []
    for h, y in zip(features.tolist(), labels.tolist(), strict=True):
        logits = [sum(w * v for w, v in zip(row, h, strict=True)) for row in model.head.weight.tolist()]
        logits = [z + b for z, b in zip(logits, model.head.bias.tolist(), strict=True)]
        rivals = range(CLASSES) if competing is None else competing
        losses.append(-math.log(math.exp(logits[y]) / sum(math.exp(logits[c]) for c in rivals)))
    return sum(losses) / len(losses)


@pytest.fixture
def slow(model):
    """The twins, bound to the model."""
    return SimpleNamespace(cross_entropy=lambda *args, **kw: cross_entropy(model, *args, **kw))


class Recorder(Perturbation):
    """A perturbation that adds one to the features of old rows and remembers what it was given."""

    remembers = ("count",)
    count = 0

    def attach(self, *args):
        self.calls = []
        return super().attach(*args)

    def __call__(self, replay, new=None):
        self.calls.append((replay, new))
        self.count += 1
        return torch.where(replay.old.unsqueeze(-1), replay.features + 1, replay.features)


@pytest.fixture
def recorder():
    return Recorder().attach()


def task(*classes, train=()):
    """A task as far as a learner looks at it."""
    return SimpleNamespace(classes=classes, train=train)


@pytest.fixture
def attached(model):
    """A learner at work, in the last of these tasks."""

    def attach(learner, *tasks, **given):
        learner.attach(model, classes=CLASSES, **given)
        for classes in tasks:
            learner.begin_task(task(*classes))
        return learner

    return attach
