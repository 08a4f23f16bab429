"""Threads and TensorFloat-32 belong to the process; a run sets them for its own work alone."""

import operator
from dataclasses import replace

import pytest
import torch

import moca
from moca import MocaError
from moca.numerics import Numerics, tf32


def switches():
    cudnn, products = torch.backends.cudnn, torch.backends.cuda.matmul
    reproducible = cudnn.deterministic and not cudnn.benchmark
    return torch.get_num_threads(), cudnn.allow_tf32, products.allow_tf32, reproducible


@pytest.fixture(autouse=True)
def put_back():
    cudnn, products = torch.backends.cudnn, torch.backends.cuda.matmul
    before = torch.get_num_threads(), cudnn.allow_tf32, products.allow_tf32, cudnn.deterministic, cudnn.benchmark
    cudnn.benchmark = True  # somebody else's choice
    yield
    torch.set_num_threads(before[0])
    cudnn.allow_tf32, products.allow_tf32, cudnn.deterministic, cudnn.benchmark = before[1:]


@pytest.mark.parametrize("tf32", [True, False])
def test_they_hold_inside_and_are_put_back_however_it_ends(tf32):
    before = switches()
    with pytest.raises(ZeroDivisionError), Numerics(threads=3, tf32=tf32)():
        assert switches() == (3, tf32, tf32, True)
        raise ZeroDivisionError
    assert switches() == before


@pytest.mark.skipif(not hasattr(torch.backends.cudnn, "conv"), reason="torch has one way to set it")
@pytest.mark.parametrize("of", ["cuda.matmul", "cudnn.conv"])
def test_the_other_way_to_set_it_is_refused_in_a_line(of):
    operations = operator.attrgetter(of)(torch.backends)
    operations.fp32_precision = "ieee" if of == "cudnn.conv" else "tf32"
    with (
        pytest.raises(MocaError, match=r"^fp32_precision of torch.backends was set, .*allow_tf32 instead$"),
        tf32(convolutions=False, products=False),
    ):
        pass


def test_without_a_number_of_threads_the_process_decides():
    for threads in (2, 1):
        torch.set_num_threads(threads)
        with Numerics()():
            assert torch.get_num_threads() == threads


METHODS = {"threads": 2}, {"threads": 1, "precision": "fp32"}, {"precision": "bf16"}


def test_runs_that_take_turns_keep_their_own(make_trainer, monkeypatch):
    """Steps of three trainers in turn: each sees its own switches, whoever was made or worked last."""
    trainers, seen = [make_trainer(**method) for method in METHODS], []
    for trainer in trainers:
        learning, step = trainer.learning, trainer.learning.step
        learning.numerics = replace(learning.numerics, tf32=trainer is trainers[0])  # as on a GPU
        monkeypatch.setattr(learning, "step", lambda raw, y, step=step: seen.append(switches()) or step(raw, y))
    torch.set_num_threads(4)
    for _ in zip(*[trainer.steps() for trainer in trainers], strict=True):
        pass
    assert seen[:6] == [(2, True, True, True), (1, False, False, True), (1, False, False, True)] * 2
    assert [trainer.learning.model.bf16 for trainer in trainers] == [False, False, True]


def test_without_a_gpu_its_switches_are_left_alone(make_trainer):
    before = switches()[1:]
    with make_trainer().learning.numerics():
        assert switches()[1:] == before


def test_a_precision_that_only_a_gpu_has_is_refused_without_one(make_trainer):
    with pytest.raises(MocaError, match="precision=tf32 needs a CUDA device; use precision=fp32"):
        make_trainer(precision="tf32")


def test_a_result_names_the_threads_of_its_run(tmp_path):
    torch.set_num_threads(1)
    small = {"model": "mlp:width=8,depth=1,features=4", "tasks": 2, "epochs": 1, "batch": 100, "device": "cpu"}
    assert moca.run(**small, threads=2, out=tmp_path / "a").environment["threads"] == 2
    assert torch.get_num_threads() == 1


def test_a_larger_model_uses_the_threads_of_the_process(make_trainer):
    assert make_trainer(model="resnet18:width=21").learning.numerics.threads is None
    assert make_trainer(model="resnet18:width=20").learning.numerics.threads == 1
    assert make_trainer(model="resnet18:width=2", threads=2).learning.numerics.threads == 2
