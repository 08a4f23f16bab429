"""The whole loops of docs/own-loop.md, run as a reader would."""

import re
import warnings
from pathlib import Path

import pytest
import torch

import moca

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
