"""Small trainers over hand-made data, and children that are no training."""

import subprocess
from pathlib import Path

import pytest

from moca.engine import subprocesses
from moca.engine.material import Material
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
        protocol = {"crop_padding": 1, "flip": True} if protocol is None else protocol
        data = stream if stream is not None else make_dataset(counts, **protocol)
        if stream is not None:
            settings = {name: value for name, value in settings.items() if name != "tasks"}
        small = {name: value for name, value in SMALL.items() if stream is None or name != "tasks"}
        return Trainer(*Material()(validate(Run, {"data": data} | small | settings)))

    return make


@pytest.fixture(scope="session")
def train():
    """Train to the end, or until so many steps are done, collecting every step's losses; `look` is called between any
    two steps."""

    def train(trainer, look=None, until=None):
        history = []
        while True:
            for step in trainer.steps():
                history.append({name: loss.item() for name, loss in step.losses.items()})
                if look:
                    look(trainer)
                if trainer.schedule.steps_done == until:
                    return history
            trainer.end_task()
            if not trainer.next_task():
                return history

    return train


@pytest.fixture
def shell_children(monkeypatch):
    """Children that are a line of shell, `line(folder, number)`, in which `$0` is the run's folder: processes as real
    as those that train, without their seconds of loading; without a line it is one that trains. All, as they start."""

    def use(line):
        begun = []

        class Child(subprocess.Popen):
            def __init__(self, words, **how):
                given = line(Path(words[4]), len(begun))
                super().__init__(["sh", "-c", given, words[4]] if given else words, **how)
                begun.append(self)

        monkeypatch.setattr(subprocesses.subprocess, "Popen", Child)
        return begun

    return use
