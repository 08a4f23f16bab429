import shutil
from functools import partial

import pytest
import torch

from moca import fusion
from moca.fusion import shared
from moca.models.encoders.resnet18 import ResNet18

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # torch's compiler warns about itself
    pytest.mark.skipif(not shutil.which("g++"), reason="on the CPU torch.compile needs a C++ compiler"),
]


def test_modules_share_a_compilation_only_if_they_compute_the_same():
    one, twin = ResNet18((3, 84, 84), width=2), ResNet18((3, 84, 84), width=2)
    pooled, wider = ResNet18((3, 84, 84), width=2, pool=4), ResNet18((3, 84, 84), width=3)
    assert shared(one) is shared(twin)
    assert len({shared(one), shared(pooled), shared(wider), shared(one.eval())}) == 4


def test_every_kind_is_compiled_however_many_there_are(monkeypatch):
    """Torch compiles one piece of code eight times and then, with no more than a warning, runs it as it is."""
    compiled = []

    def counting(graph, inputs):
        compiled.append(graph)
        return graph.forward

    monkeypatch.setattr(fusion, "_modules", {})
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=counting))
    for width in range(2, 12):
        layer = torch.nn.Linear(width, 3)
        shared(layer)(dict(layer.named_parameters()), torch.ones(1, width))
    assert len(compiled) == 10
