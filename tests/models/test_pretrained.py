"""Encoders with trained weights, user-defined ones too."""

import pytest
import torch
from torch import nn

import moca
from moca.settings import Run, validate
from tests.engine.helpers import begin, finish
from tests.engine.test_run import assert_same_run, interrupt_when

SMALL = {"epochs": 1, "batch": 64, "memory": 12, "device": "cpu", "threads": 1, "tasks": 2}


class Net(nn.Module):
    """An encoder that knows nothing of moca, and draws from torch's generator."""

    def __init__(self, shape, width: int = 6):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, width), nn.Dropout(0.5))

    def forward(self, x):
        return self.layers(x)


NET = f"{__name__}.Net"


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """A run with an encoder of the user's own."""
    return moca.run(**SMALL, model=NET, out=tmp_path_factory.mktemp("first") / "run").folder


def test_a_run_begins_with_the_weights_of_a_run_with_ones_own_encoder(first, tmp_path):
    run = begin(SMALL | {"model": f"pretrained:weights={first}"}, tmp_path / "second")
    encoder = run.trainer.learning.model.encoder
    assert type(encoder) is Net
    before = moca.load_model(first, device="cpu").learning_.model.encoder.state_dict()
    for name, value in encoder.state_dict().items():
        assert value.equal(before[name])
    assert finish(run).status == "finished"


def test_its_dropout_follows_the_seed(first, tmp_path):
    settings = SMALL | {"model": f"pretrained:weights={first}"}
    whole = moca.run(**settings, out=tmp_path / "whole", keep_model=False)
    torch.rand(1)
    finish(begin(settings, tmp_path / "half", interrupt_when(5)))
    assert_same_run(whole.folder, moca.resume(tmp_path / "half", keep_model=False).folder)


@pytest.mark.parametrize(
    ("model", "own"),
    [
        ("convnet", False),
        (NET, True),
        ("pretrained:weights=w.pt,base=resnet18:width=20/pool=4", False),
        (f"pretrained:weights=w.pt,base={NET}:width=3", True),
        ("pretrained:weights=runs/first", True),  # it may be
    ],
)
def test_what_counts_as_ones_own_code(model, own):
    assert validate(Run, {"model": model}).with_own_code is own


def test_a_run_that_has_ended_is_analysed_without_the_weights(tmp_path):
    small = SMALL | {"model": "convnet:width=2,features=4"}
    first = moca.run(**small, out=tmp_path / "first")
    second = moca.run(**small | {"model": f"pretrained:weights={first.folder}"}, out=tmp_path / "second")
    first.folder.rename(tmp_path / "elsewhere")
    assert "confusion" in moca.analyse(second, device="cpu").analyses
