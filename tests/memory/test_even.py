"""Even replay: which classes come, and how often."""

from types import SimpleNamespace

import pytest
import torch
from scipy.stats import chisquare

from moca.memory import Even, Memory, Reservoir
from moca.random import Random


def memory(held, size, classes, seed=0):
    """Holds so many samples of each class."""
    kept = Memory(size, Reservoir(size, Random(seed, "store")),
                  Even(Random(seed, "draw"), SimpleNamespace(came=torch.zeros(classes))))  # fmt: skip
    kept.add(y=torch.repeat_interleave(torch.arange(len(held)), torch.tensor(held)))
    return kept


@pytest.mark.parametrize("size", [46, 60])
def test_classes_come_equally_often_and_the_samples_of_each_too(size):
    kept, times = memory([40, 5, 1], size, classes=4), 3000
    slots = torch.cat([kept.draw(1)["slot"] for _ in range(times)])
    assert chisquare(kept.fields["y"][slots].bincount(minlength=3)).pvalue > 1e-5
    for first, last in ((0, 40), (40, 45)):
        of_class = slots[(slots >= first) & (slots < last)] - first
        assert chisquare(of_class.bincount(minlength=last - first)).pvalue > 1e-5


def test_none_comes_twice_in_a_batch_and_where_a_class_runs_out_others_come():
    drawn = memory([40, 5, 1], 60, classes=3).draw(32)
    assert len(drawn["slot"].unique()) == 32
    assert drawn["y"].bincount().tolist()[1:] == [5, 1]
    assert sorted(memory([4, 2], 9, classes=2).draw(32)["slot"].tolist()) == list(range(6)), "all that there are"
