"""Drawing without replacement, every stored sample equally likely."""

from itertools import permutations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2, chisquare

from moca.memory import Uniform
from moca.random import Random


@given(stored=st.lists(st.booleans(), min_size=1, max_size=30), data=st.data(), seed=st.integers(0, 99))
def test_different_slots_among_the_stored_ones(stored, data, seed):
    count = data.draw(st.integers(0, sum(stored)))
    chosen = Uniform(Random(seed, "draw")).choose(count, torch.tensor(stored)).tolist()
    assert len(set(chosen)) == len(chosen) == count
    assert all(stored[i] for i in chosen)


@pytest.mark.parametrize("count", [1, 3, 7])
def test_every_slot_equally_often(count):
    stored = torch.tensor([True] * 8 + [False] * 3)
    drawing, times = Uniform(Random(0, "draw")), torch.zeros(11, dtype=torch.int64)
    for _ in range(4000):
        times[drawing.choose(count, stored)] += 1
    assert times[8:].sum() == 0
    # Without replacement the counts vary less than multinomial ones, by the factor (8 - count) / 7.
    statistic, _ = chisquare(times[:8].numpy())
    assert 1e-5 < chi2.sf(statistic * 7 / (8 - count), 7) < 1 - 1e-5


def test_every_order_equally_often():
    drawing, stored = Uniform(Random(1, "draw")), torch.ones(4, dtype=torch.bool)
    times = dict.fromkeys(permutations(range(4), 2), 0)
    for _ in range(3000):
        times[tuple(drawing.choose(2, stored).tolist())] += 1
    assert chisquare(list(times.values())).pvalue > 1e-5


def test_largest_tickets_win():
    stored = torch.tensor([True, False, True, True, True])
    tickets = Random(5, "draw").uniform(5, dtype=torch.float64).tolist()
    ranked = sorted((i for i in range(5) if stored[i]), key=lambda i: -tickets[i])
    assert Uniform(Random(5, "draw")).choose(3, stored).tolist() == ranked[:3]


def test_draws_are_independent_and_resume_exactly():
    stored = torch.ones(50, dtype=torch.bool)
    drawing, other = Uniform(Random(2, "draw")), Uniform(Random(2, "draw"))
    first = drawing.choose(10, stored)
    other.load_state_dict(drawing.state_dict())
    second = drawing.choose(10, stored)
    assert not second.equal(first)
    assert other.choose(10, stored).equal(second)
