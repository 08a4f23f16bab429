import copy
import gc
import shutil
from contextlib import nullcontext
from functools import partial

import pytest
import torch
from torch import nn

from moca import fusion
from moca.models.batch_norm.batches import batches_apart, rows_weighted
from moca.models.encoders.resnet18 import ResNet18

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # torch's compiler warns about itself
    pytest.mark.skipif(not shutil.which("g++"), reason="on the CPU torch.compile needs a C++ compiler"),
]


class Scaled(nn.Module):
    """A layer of the user's own, whose repr does not show its factor."""

    def __init__(self, factor: float, width: int = 3) -> None:
        super().__init__()
        self.factor, self.layer = factor, nn.Linear(width, 2)

    def forward(self, x):
        return self.factor * self.layer(x)


@pytest.fixture
def graphs(monkeypatch):
    """The graphs that torch compiles, which are carried out as they are."""
    found = []

    def counting(graph, inputs):
        found.append(graph)
        return graph.forward

    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=counting))
    return found


def result(module, x):
    return fusion.compiled(module)(dict(module.named_parameters()) | dict(module.named_buffers()), x)


def test_modules_share_a_compilation_only_if_they_compute_the_same():
    one, twin = ResNet18((3, 84, 84), width=2), ResNet18((3, 84, 84), width=2)
    pooled, wider = ResNet18((3, 84, 84), width=2, pool=4), ResNet18((3, 84, 84), width=3)
    assert fusion.compiled(one) is fusion.compiled(twin)
    assert len({fusion.compiled(module) for module in (one, pooled, wider)} | {fusion.compiled(one.eval())}) == 4


def test_a_module_of_ones_own_may_differ_in_what_its_repr_does_not_show(graphs):
    x, modules = torch.ones(1, 3), [Scaled(2.0), Scaled(5.0)]
    for module in modules:
        torch.testing.assert_close(result(module, x), module(x))
    assert len(graphs) == 2
    result(modules[0], x)
    assert len(graphs) == 2, "once for each"


def test_every_kind_is_compiled_however_many_there_are(graphs):
    """Torch compiles one piece of code eight times and then, with no more than a warning, runs it as it is."""
    for width in range(2, 12):
        result(nn.Linear(width, 3), torch.ones(1, width))
    assert len(graphs) == 10


def test_the_batches_of_a_pass_are_those_of_each_call(graphs):
    """Their sizes are compiled in, the weights of the rows are not: these change at every step."""
    module, x = ResNet18((3, 8, 8), width=5), torch.rand(8, 3, 8, 8)
    for step in range(3):
        weights = torch.rand(8, generator=torch.Generator().manual_seed(step)).softmax(0)
        for inside in (nullcontext, partial(batches_apart, (3, 5), ()), partial(rows_weighted, weights)):
            ours, plain = copy.deepcopy(module), copy.deepcopy(module)
            with inside():
                features, expected = result(ours, x), plain(x)
            torch.testing.assert_close(features, expected)
            found, wanted = (
                torch.autograd.grad(y[:, 0].sum(), list(m.parameters()))
                for y, m in ((features, ours), (expected, plain))
            )
            torch.testing.assert_close(found, wanted)
    assert len(graphs) == 3, "once for each kind of pass"


@pytest.mark.parametrize("make", [partial(ResNet18, (3, 8, 8), width=7), partial(Scaled, 2.0, width=192)])
def test_what_was_compiled_holds_no_weights(graphs, make):
    module, x = make(), torch.ones(2, 3, 8, 8)
    shapes = {p.shape for p in module.parameters() if p.dim() > 1}
    result(module, x if isinstance(module, ResNet18) else x.flatten(1))
    assert len(graphs) == 1
    del module
    gc.collect()
    weights = [found for found in gc.get_objects() if type(found) is nn.Parameter and found.shape in shapes]
    assert not [weight for weight in weights if not weight.is_meta]
