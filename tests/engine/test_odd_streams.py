"""Streams at the edge, for every learner: single samples, single classes, classes that come back or were not known."""

import math

import pytest

from moca.arrivals import returning
from moca.streams import class_incremental
from tests.engine.methods import PLAIN

ODD = {
    "a batch of one": {"batch": 1, "epochs": 1},
    "one class a task": {"tasks": 4, "epochs": 1},
    "an unknown number of classes": {"classes": "unknown", "epochs": 1},
    "more replayed than new": {"replay_batch": 9, "epochs": 1},
}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("learner", PLAIN)
def test_every_learner_goes_through(make_trainer, train, learner, odd):
    trainer = make_trainer((4, 4, 4, 4), **PLAIN[learner] | ODD[odd])
    history = train(trainer)
    assert len(history) == trainer.schedule.total
    assert all(math.isfinite(loss) for losses in history for loss in losses.values())
    assert trainer.learning.classes == 4


@pytest.mark.parametrize("learner", PLAIN)
def test_classes_that_come_back(make_dataset, make_trainer, train, learner):
    data = make_dataset((6, 6, 6, 6), crop_padding=1, flip=True)
    trainer = make_trainer(stream=returning(class_incremental(data, 2), 0.5), **PLAIN[learner] | {"epochs": 1})
    history = train(trainer)
    assert all(math.isfinite(loss) for losses in history for loss in losses.values())
    if learner != "joint":
        assert trainer.learning.learner.old.tolist() == [True, True, False, False]
        assert trainer.learning.learner.current.all()
