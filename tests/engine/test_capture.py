"""Recording a step with the GPU's part left out: what is recorded must leave no trace in the run."""

from contextlib import nullcontext

import pytest
import torch

from moca import Perturbation
from moca.engine.capture import CapturedStep
from moca.engine.outputs import Outputs
from moca.random import Random
from moca.state import placed_tensors


class Graph:
    def replay(self):
        pass


class Stream:
    def __init__(self, device):
        pass

    def wait_stream(self, other):
        pass


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "current_stream", Stream)
    monkeypatch.setattr(torch.cuda, "default_stream", Stream)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())
    monkeypatch.setattr(torch.cuda, "graph", lambda graph, stream: nullcontext())


@pytest.mark.parametrize(
    "method",
    [{"perturb": "vt"}, {"learner": "derpp", "perturb": "wap"}, {"learner": "bfp"}, {"optimiser": "sgd:momentum=0.9"}],
)
def test_recording_leaves_no_trace(make_trainer, no_gpu, method):
    trainer = make_trainer(**method)
    for _ in trainer.steps():
        pass
    trainer.next_task()
    before = trainer.state_dict()
    CapturedStep(trainer.learning, trainer.feed)._record(trainer.schedule.tasks[1].train[:4])
    assert before["schedule"] == trainer.schedule.state()
    before, after = before["learning"], trainer.learning.state()
    assert before["memory"]["offered"] == after["memory"]["offered"]
    for part in ("model", "memory", "augment"):
        known, found = dict(placed_tensors(before[part])), dict(placed_tensors(after[part]))
        assert known.keys() == found.keys()
        assert all(torch.equal(found[path], tensor) for path, tensor in known.items())
    assert torch.equal(
        before["learner"]["perturbation"]["random"]["count"], trainer.learning.learner.perturbation.random.count
    )
    made_anew = [t for state in trainer.learning.optimiser.state.values() for t in state.values()]
    assert all(not t.any() for t in made_anew)
    if method.get("perturb") == "vt":
        assert not trainer.learning.learner.perturbation.means.any(), "means made while recording start at zero"


def test_state_that_moves_while_recording_keeps_its_values(make_trainer, no_gpu, monkeypatch):
    """As random numbers do that come from a checkpoint on the CPU and move to the GPU in the first step."""

    def move(random, device):
        random.key, random.count = random.key.clone(), random.count.clone()

    trainer = make_trainer(perturb="gaussian")
    list(trainer.steps())
    trainer.next_task()
    list(trainer.steps())
    random = trainer.learning.learner.perturbation.random
    drawn = random.count.item()
    assert drawn > 0
    monkeypatch.setattr(Random, "to", move)
    CapturedStep(trainer.learning, trainer.feed)._record(trainer.schedule.tasks[1].train[:4])
    assert random.count.item() == drawn


class LastBatch(Perturbation):
    remembers = ("last",)
    last = None

    def direction(self, replay, new):
        self.last = new.features.clone()
        return replay.features


def test_state_of_another_shape_is_set_to_zero(make_trainer, no_gpu):
    """As for a part that remembers its last batch when a shorter batch is recorded."""
    trainer = make_trainer(perturb=LastBatch)
    list(trainer.steps())
    trainer.next_task()
    next(trainer.steps())
    CapturedStep(trainer.learning, trainer.feed)._record(trainer.schedule.tasks[1].train[:3])
    last = trainer.learning.learner.perturbation.last
    assert len(last) == 3 and not last.any()


@pytest.mark.parametrize(("epochs", "recorded"), [(1, {6}), (2, {6, 4, 5})])
def test_only_shapes_that_come_again_are_recorded(make_trainer, no_gpu, epochs, recorded):
    """The first step, when the memory is empty, and the short last batch of a single epoch are not."""
    trainer, sizes = make_trainer(epochs=epochs), set()
    trainer.captured = CapturedStep(trainer.learning, trainer.feed)
    original = trainer.captured._record
    trainer.captured._record = lambda index: sizes.add(len(index)) or original(index)
    while True:
        list(trainer.steps())
        if not trainer.next_task():
            break
    assert sizes == recorded


@pytest.mark.parametrize(
    ("method", "recorded"),
    [
        ({"learner": "er"}, 2),
        ({"learner": "derpp", "perturb": "vt"}, 2),
        ({"learner": "er_ace", "perturb": "wap", "optimiser": "sgd:momentum=0.9,anew=false"}, 2),
        ({"learner": "lwf"}, 2),
        ({"learner": "xder"}, 2),
        ({"learner": "ssil"}, 2),
        ({"learner": "ssil:distil=true"}, 4),
        ({"learner": "er", "optimiser": "sgd:momentum=0.9"}, 4),
        ({"learner": "er", "classes": "unknown"}, 4),
    ],
    ids=str,
)
def test_a_recording_outlasts_tasks_that_change_nothing_but_tensors(make_trainer, no_gpu, method, recorded):
    """It is of no use after the first task, or where a softmax, a buffer or a row comes anew with every task."""
    trainer = make_trainer((8,) * 8, tasks=4, epochs=1, batch=4, memory=8, **method)
    trainer.captured = CapturedStep(trainer.learning, trainer.feed)
    original, records = trainer.captured._record, []
    trainer.captured._record = lambda index: records.append(len(index)) or original(index)
    while True:
        list(trainer.steps())
        trainer.end_task()
        if not trainer.next_task():
            break
    assert records == [4] * recorded


def test_recordings_of_batches_that_no_longer_come_are_dropped(make_trainer, no_gpu):
    """Each holds the memory of a whole step, and every task may have a short batch of a size of its own."""
    trainer, held = make_trainer((8, 8, 8, 8, 7, 7, 6, 5), tasks=4, epochs=2, batch=4, memory=8), []
    trainer.captured = CapturedStep(trainer.learning, trainer.feed)
    while True:
        list(trainer.steps())
        held.append(set(trainer.captured.recordings))
        if not trainer.next_task():
            break
    assert held == [{(4, True)}, {(4, True)}, {(4, True), (2, True)}, {(4, True), (3, True)}]


def test_outputs_are_declared_before_and_copied_after(make_trainer, no_gpu):
    trainer = make_trainer(perturb="gaussian")
    trainer.learning.outputs = Outputs(["replay.moved", "new.features.gradient"])
    trainer.captured = CapturedStep(trainer.learning, trainer.feed)
    steps = list(trainer.steps())
    assert "replay.moved" not in steps[0].outputs, "nothing is replayed in the first step"
    assert steps[1].outputs.keys() == {"replay.moved", "new.features.gradient"}
    recording = trainer.captured.recordings[6, True]
    assert recording.outputs["replay.moved"].data_ptr() != steps[1].outputs["replay.moved"].data_ptr()
