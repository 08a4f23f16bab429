"""Recording a step with the GPU's part left out: what is recorded must leave no trace in the run."""

from contextlib import nullcontext

import pytest
import torch

from moca.engine.capture import CapturedStep
from moca.state import tensors_in


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


@pytest.mark.parametrize("method", [{"perturb": "vt"}, {"learner": "derpp", "perturb": "wap"}, {"momentum": 0.9}])
def test_recording_leaves_no_trace(make_trainer, no_gpu, method):
    trainer = make_trainer(**method)
    for _ in trainer.steps():
        pass
    trainer.next_task()
    before = trainer.state_dict()
    CapturedStep(trainer)._record(trainer.tasks[1].train[:4])
    after = trainer.state()
    assert before["position"] == after["position"]
    assert before["memory"]["offered"] == after["memory"]["offered"]
    known = list(tensors_in({key: before[key] for key in ("model", "memory", "augment")}))
    found = list(tensors_in({key: after[key] for key in ("model", "memory", "augment")}))
    assert len(known) == len(found)
    assert all(torch.equal(a, b) for a, b in zip(known, found, strict=True))
    assert torch.equal(before["learner"]["perturbation"]["random"]["count"], trainer.learner.perturbation.random.count)
    made_anew = [t for state in trainer.optimiser.state.values() for t in state.values()]
    assert all(not t.any() for t in made_anew)
    if method.get("perturb") == "vt":
        assert not trainer.learner.perturbation.means.means.any(), "means made while recording start at zero"


@pytest.mark.parametrize(("epochs", "recorded"), [(1, False), (2, True)])
def test_only_shapes_that_come_again_are_recorded(make_trainer, no_gpu, epochs, recorded):
    trainer = make_trainer(epochs=epochs)
    captured = CapturedStep(trainer)
    whole, short = trainer.tasks[0].train[:6], trainer.tasks[0].train[:4]
    assert not captured._recurs(whole), "the memory is empty"
    list(trainer.steps())
    assert captured._recurs(whole)
    assert captured._recurs(short) == recorded
