"""The vectorised reservoir against algorithm R, one sample at a time."""

from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2, chisquare

from moca.memory import Reservoir
from moca.random import Random

batch_sizes = st.lists(st.integers(1, 12), min_size=1, max_size=12)


def offered(count):
    """So many samples, one field each."""
    return {"y": torch.zeros(count)}


def after(count):
    """A memory that was offered so many samples before."""
    return SimpleNamespace(count=torch.tensor(count))


def algorithm_r(size, numbers, memory, first):
    """Vitter's algorithm R: sample k takes slot k while there is room, else slot floor(u (k + 1)) if it exists."""
    for k, u in enumerate(numbers, start=first):
        if k < size:
            memory[k] = k
        else:
            slot = int(u * (k + 1))
            if slot < size:
                memory[slot] = k
    return memory


@given(size=st.integers(1, 20), batches=batch_sizes, seed=st.integers(0, 1000))
def test_equals_algorithm_r_slot_by_slot(size, batches, seed):
    reservoir, twin = Reservoir(size, Random(seed, "store")), Random(seed, "store")
    stored, expected, number = torch.full((size + 1,), -1), {}, 0
    for count in batches:
        slots = reservoir.slots(offered(count), after(number))
        kept = slots[slots < size]
        assert len(kept.unique()) == len(kept), "two samples of one batch share a slot"
        stored[slots] = torch.arange(number, number + count)
        numbers = twin.uniform(count, dtype=torch.float64).tolist()
        algorithm_r(size, numbers, expected, number)
        number += count
        assert {i: k for i, k in enumerate(stored[:size].tolist()) if k >= 0} == expected


@given(size=st.integers(1, 9), batches=batch_sizes, seed=st.integers(0, 1000))
def test_contents_do_not_depend_on_how_the_samples_are_batched(size, batches, seed):
    at_once, piecewise = Reservoir(size, Random(seed, "store")), Reservoir(size, Random(seed, "store"))
    total = sum(batches)
    whole, parts = torch.full((size + 1,), -1), torch.full((size + 1,), -1)
    whole[at_once.slots(offered(total), after(0))] = torch.arange(total)
    first = 0
    for count in batches:
        parts[piecewise.slots(offered(count), after(first))] = torch.arange(first, first + count)
        first += count
    assert whole[:size].equal(parts[:size])


@pytest.mark.parametrize("batch", [7, 20])
def test_uniform_over_everything_offered(batch):
    size, total, seeds = 5, 20, 2000
    kept = torch.zeros(total, dtype=torch.int64)
    for seed in range(seeds):
        reservoir, content = Reservoir(size, Random(seed, "store")), torch.full((size + 1,), -1)
        for first in range(0, total, batch):
            numbers = torch.arange(first, min(first + batch, total))
            content[reservoir.slots(offered(len(numbers)), after(first))] = numbers
        kept[content[:size]] += 1
    # Without replacement the counts vary less than multinomial ones, by the factor (total - size) / (total - 1).
    statistic, _ = chisquare(kept.numpy())
    corrected = statistic * (total - 1) / (total - size)
    assert 1e-5 < chi2.sf(corrected, total - 1) < 1 - 1e-5


def test_each_slot_is_uniform_over_everything_offered():
    size, total, seeds = 2, 8, 3000
    kept = torch.zeros(size, total, dtype=torch.int64)
    for seed in range(seeds):
        content = torch.full((size + 1,), -1)
        content[Reservoir(size, Random(seed, "store")).slots(offered(total), after(0))] = torch.arange(total)
        kept[torch.arange(size), content[:size]] += 1
    # Slot 0 starts with sample 0 and slot 1 with sample 1, so that neither can hold the other's.
    assert kept[0, 1] == kept[1, 0] == 0
    expected = [[2, 0, 1, 1, 1, 1, 1, 1], [0, 2, 1, 1, 1, 1, 1, 1]]
    for counts, shares in zip(kept.numpy(), torch.tensor(expected, dtype=torch.float64), strict=True):
        possible = shares > 0
        assert chisquare(counts[possible], (seeds * shares / 8)[possible].numpy()).pvalue > 1e-5


def test_resumes_exactly():
    reservoir, other = Reservoir(4, Random(3, "store")), Reservoir(4, Random(3, "store"))
    reservoir.slots(offered(9), after(0))
    other.load_state_dict(reservoir.state_dict())
    assert other.slots(offered(30), after(9)).equal(reservoir.slots(offered(30), after(9)))


def test_state_is_a_copy():
    reservoir = Reservoir(4, Random(3, "store"))
    state = reservoir.state_dict()
    reservoir.slots(offered(9), after(0))
    assert state["random"]["count"] == 0
