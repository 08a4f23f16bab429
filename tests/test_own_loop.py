"""The loops and lines of docs/own-loop.md, run as a reader would, and what its table says."""

import re
import warnings
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import moca
from moca.models.encoders.convnet import ConvNet
from moca.parts import PERTURBATIONS

PAGE = (Path(__file__).parents[1] / "docs" / "own-loop.md").read_text()


def block(heading):
    """The example below a heading."""
    return compile(re.search(rf"## {heading}.*?```python\n(.*?)```", PAGE, re.S)[1], "docs/own-loop.md", "exec")


@pytest.fixture
def plain():
    names = {}
    with torch.random.fork_rng():
        exec(block("A whole loop"), names)
    return names


def test_in_plain_pytorch(plain, capsys):
    assert plain["accuracy"] > 0.7
    assert len(plain["memory"]) == 60


def test_the_memory_is_what_keeps_it(capsys):
    source = re.search(r"## A whole loop.*?```python\n(.*?)```", PAGE, re.S)[1]
    names = {}
    with torch.random.fork_rng():
        exec(source.replace("if len(memory):", "if False:"), names)
    assert names["accuracy"] < 0.3


def test_in_lightning(plain, capsys):
    pytest.importorskip("lightning", reason="the example is for those who use it")
    with warnings.catch_warnings(), torch.random.fork_rng():
        warnings.simplefilter("ignore")
        exec(block("In Lightning"), plain)
        module = plain["module"]
        h = torch.ones(4, 32)
        moved = module.perturb(moca.Batch(features=h, old=torch.tensor([True, True, False, False])))
    assert module.trainer.global_step == 2 * -(-int((plain["labels"] >= 8).sum()) // 32), "two epochs"
    assert (moved != h).any(1).tolist() == [True, True, False, False]


NEEDS = [
    (spec, *(re.findall(r"\w+", cell.partition(" with ")[0]) for cell in cells))
    for name, *cells in re.findall(r"^\|(.+?)\|(.*?)\|(.*?)\|(.*?)\|$", PAGE, re.M)
    for spec in re.findall(r"`(.+?)`", name)
]
"""Of each row of the table: the variant, fields of the replayed and the new batch, and what is given once."""


@pytest.mark.parametrize(("spec", "of_replay", "of_new", "once"), NEEDS, ids=[row[0] for row in NEEDS])
def test_a_variant_needs_what_the_table_says_and_nothing_of_it_is_too_much(spec, of_replay, of_new, once):
    ours = ConvNet((1, 8, 8), width=4, features=16)
    model = moca.Model(ours if "stages" in spec else nn.Sequential(nn.Flatten(), nn.Linear(64, 16)), nn.Linear(16, 9))
    x, y, kept = torch.rand(6, 1, 8, 8), torch.arange(6), {"model": model, "lr": 0.1, "classes": 9}
    fields = {"x": x, "y": y, "features": model.encode(x)}

    def moved(*lacking):
        given = {"replay": of_replay, "new": of_new, "once": once}
        replay, new, parts = (
            [name for name in names if (where, name) not in lacking] for where, names in given.items()
        )
        perturb = moca.perturbation(spec, **{name: kept[name] for name in parts})
        with_new = [moca.Batch(**{name: fields[name] for name in new})] if new else []
        return perturb(moca.Batch(**{name: fields[name] for name in replay}), *with_new)

    assert torch.equal(moved(), fields["features"]) == (spec == "none")
    for where, names in (("replay", of_replay), ("new", of_new), ("once", once)):
        for name in names:
            with pytest.raises((AttributeError, ValueError), match=name if where == "once" else rf"{name}="):
                moved((where, name))


def test_the_table_has_every_variant():
    names = {spec.partition(":")[0] for spec, *_ in NEEDS}
    assert names == set(PERTURBATIONS.built_in)


def test_the_lines_above_the_whole_loops():
    encoder, classifier = nn.Sequential(nn.Flatten(), nn.Linear(64, 16)), nn.Linear(16, 100)
    x, x_old, y_old = torch.rand(5, 1, 8, 8), torch.rand(4, 1, 8, 8), torch.arange(48, 52)
    y = torch.tensor([50, 50, 51, 51, 51])  # one sample a class has no spread to lend
    names = {"cross_entropy": cross_entropy, "encoder": encoder, "classifier": classifier, "first_new_class": 50,
             "new_batches": [(x, y)], "replay_batches": [(x_old, y_old)], "old": y_old < 50,
             "optimiser": torch.optim.SGD(encoder.parameters(), lr=0.1)}  # fmt: skip
    lines = re.findall(r"```python\n(.*?)```", PAGE.partition("## A whole loop")[0], re.S)
    assert len(lines) == 3
    for source in lines:
        exec(compile(source, "docs/own-loop.md", "exec"), names)
        assert (moca.sphere.angle(names["h"], encoder(x_old)) > 1e-3).tolist() == [True, True, False, False]
        names["h"] = encoder(x_old)


def step_of_a_loop(spec, device):
    """The loss of a step of replay with this variant, and the weights."""
    draw = torch.Generator().manual_seed(0)
    encoder, classifier = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 32)), nn.Linear(32, 9)
    weights = [*encoder.parameters(), *classifier.parameters()]
    for w in weights:
        w.data = (torch.randn(w.shape, generator=draw) / 5).to(device)
    x, x_old = torch.randn(2, 16, 20, generator=draw).to(device)
    y, y_old = torch.randint(9, (2, 16), generator=draw).to(device)
    once = {"model": moca.Model(encoder, classifier), "lr": 0.1, "classes": 9}
    needed = {"vt": ["classes"], "wap": ["model", "lr"]}.get(spec, [])
    perturb = moca.perturbation(spec, **{name: once[name] for name in needed})

    def loss():
        new, old = encoder(x), encoder(x_old)
        moved = perturb(moca.Batch(x=x_old, features=old, old=y_old < 6), moca.Batch(features=new, y=y))
        return cross_entropy(classifier(new), y) + cross_entropy(classifier(moved), y_old)

    return loss, weights


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("spec", ["gaussian", "vmf", "doa_old", "doa_new", "vt", "wap"])
def test_compiled_and_in_a_graph_captured_by_hand(spec):
    def gradients(step, weights, times):
        for _ in range(times):
            for w in weights:
                w.grad = None
            step()
        return [w.grad.clone() for w in weights]

    loss, weights = step_of_a_loop(spec, "cuda")
    expected = gradients(lambda: loss().backward(), weights, 3)
    loss, weights = step_of_a_loop(spec, "cuda")
    compiled = torch.compile(loss)
    torch.testing.assert_close(gradients(lambda: compiled().backward(), weights, 3), expected)
    loss, weights = step_of_a_loop(spec, "cuda")
    with torch.cuda.stream(torch.cuda.Stream()):
        gradients(lambda: loss().backward(), weights, 1)  # warm-up, which draws once
    torch.cuda.synchronize()
    for w in weights:
        w.grad = None
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss().backward()
    graph.replay(), graph.replay()
    torch.testing.assert_close([w.grad for w in weights], expected, rtol=0, atol=0)
