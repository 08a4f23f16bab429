"""Small trainers over hand-made data."""

import pytest

from moca import class_incremental
from moca.engine.trainer import Trainer
from moca.settings import Run, validate

SMALL = {
    "tasks": 2,
    "epochs": 2,
    "batch": 6,
    "memory": 10,
    "lr": 0.2,
    "model": "convnet:width=2,features=5",
    "device": "cpu",
}


@pytest.fixture(scope="session")
def make_trainer(make_dataset):
    """A trainer on a toy stream (by default 2 tasks of 2 classes, 16 or 17 samples each), with small settings."""

    def make(counts=(8, 8, 9, 8), stream=None, protocol=None, **settings):
        settings = validate(Run, SMALL | settings)
        protocol = {"crop_padding": 1, "flip": True} if protocol is None else protocol
        stream = stream or class_incremental(
            make_dataset(counts, **protocol),
            settings.tasks or 2,
            settings.class_order or "natural",
            settings.validation,
            settings.seed.of("classes"),
        )
        return Trainer(settings, stream)

    return make


@pytest.fixture
def train():
    """Train to the end, collecting every step's losses; `look` is called between any two steps."""

    def train(trainer, look=None):
        history = []
        while True:
            for losses in trainer.steps():
                history.append({name: loss.item() for name, loss in losses.items()})
                if look:
                    look(trainer)
            if not trainer.next_task():
                return history

    return train
