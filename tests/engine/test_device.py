import pytest
import torch

from moca import MocaError
from moca.engine import device
from moca.engine.device import captures, check_execution, has_bfloat16, pick_device
from moca.learners.er import ER
from moca.settings import Run, validate

CUDA = torch.device("cuda")


@pytest.mark.parametrize("name", ["cpuu", "", "mps", "meta", "xpu", "cpu:x"])
def test_an_unknown_device_is_refused(name):
    with pytest.raises(MocaError, match=f"unknown device '{name}'; use cpu, cuda or auto"):
        pick_device(name)


def test_a_gpu_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert pick_device("cuda:1").index == 1
    assert pick_device("auto") == pick_device("cuda") == CUDA
    with pytest.raises(MocaError, match="there is no device 'cuda:2'; the last one is cuda:1"):
        pick_device("cuda:2")


@pytest.mark.parametrize(
    ("execution", "on", "captured"),
    [("auto", "cuda", True), ("compiled", "cuda", True), ("eager", "cuda", False), ("auto", "cpu", False)],
)
def test_steps_are_captured_where_they_can_be(execution, on, captured):
    assert captures(validate(Run, {"execution": execution}), torch.device(on)) == captured


def test_a_learner_that_cannot_be_static_says_so_and_runs_eagerly(monkeypatch):
    monkeypatch.setattr(ER, "static", False)
    assert not captures(validate(Run, {}), CUDA)
    monkeypatch.setattr(device, "pick_device", lambda name: CUDA)
    check_execution(validate(Run, {}))
    with pytest.raises(MocaError, match="a step of 'er' cannot be captured; use execution=eager"):
        check_execution(validate(Run, {"execution": "captured"}))


def test_each_gpu_is_asked_whether_it_computes_in_bfloat16(monkeypatch):
    """Not the current one: a T4 may stand beside an A100."""
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: {0: (7, 5), 1: (8, 0)}[device.index])
    assert [has_bfloat16(torch.device(name)) for name in ("cuda:0", "cuda:1", "cpu")] == [False, True, False]
