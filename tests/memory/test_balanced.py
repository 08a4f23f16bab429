"""Balanced storing against a slow twin, and what it promises: even shares, and chance within a class."""

from itertools import chain

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2, chisquare

from moca.memory import Balanced, Memory, Reservoir, Uniform
from moca.random import Random

lessons = st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=12), min_size=1, max_size=10)


def memory(size, seed=0, store=Balanced):
    return Memory(size, store(size, Random(seed, "store")), Uniform(Random(seed, "draw")))


def fill(kept, batches):
    """Samples numbered as they come, with these labels."""
    number = 0
    for labels in batches:
        kept.add(number=torch.arange(number, number + len(labels)), y=torch.tensor(labels))
        number += len(labels)
    return kept


def in_rounds(samples, size):
    """Classes take turns, each with the lowest ticket that it has left; in a round the lowest come first."""
    left, order = sorted(samples), []
    while left:
        turn = {y: (ticket, y, number) for ticket, y, number in reversed(left)}
        order += sorted(turn.values())
        left = [sample for sample in left if sample not in turn.values()]
    return order[:size]


@given(size=st.integers(1, 20), batches=lessons, seed=st.integers(0, 1000))
def test_equals_classes_that_take_turns(size, batches, seed):
    kept, twin, expected, number = memory(size, seed), Random(seed, "store"), [], 0
    for labels in batches:
        before = kept.all().get("number", torch.arange(0)).tolist()
        kept.add(number=torch.arange(number, number + len(labels)), y=torch.tensor(labels))
        tickets = twin.uniform(len(labels), dtype=torch.float64).tolist()
        expected += [(tickets[i], label, number + i) for i, label in enumerate(labels)]
        expected, number = in_rounds(expected, size), number + len(labels)
        after = kept.all()["number"].tolist()
        assert sorted(after) == sorted(n for _, _, n in expected)
        assert dict(zip(after, kept.all()["y"].tolist(), strict=True)) == {n: y for _, y, n in expected}
        assert all(after[slot] == was or was not in after for slot, was in enumerate(before)), "what stays moves"


@given(size=st.integers(1, 20), batches=lessons)
def test_no_class_has_more_than_another_that_offered_more_than_it_holds(size, batches):
    kept, offered = fill(memory(size), batches), torch.tensor(list(chain(*batches))).bincount()
    held = kept.all()["y"].bincount(minlength=len(offered))
    assert held.sum() == min(size, offered.sum())
    assert (held[held < offered] >= held.max() - 1).all()


@given(size=st.integers(1, 9), batches=lessons, seed=st.integers(0, 1000))
def test_contents_do_not_depend_on_how_the_samples_are_batched(size, batches, seed):
    whole, parts = fill(memory(size, seed), [list(chain(*batches))]), fill(memory(size, seed), batches)
    assert whole.all()["number"].sort().values.equal(parts.all()["number"].sort().values)


def test_chance_within_a_class():
    """Of 30 samples of one class and 10 of another, each has 5 of 10 slots."""
    labels, seeds = [0, 0, 0, 1] * 10, 2000
    counts = sum(fill(memory(10, seed), [labels[:15], labels[15:]]).all()["number"].bincount(minlength=40)
                 for seed in range(seeds))  # fmt: skip
    for label, total in ((0, 30), (1, 10)):
        of_class = counts[torch.tensor(labels) == label]
        assert of_class.sum() == 5 * seeds
        # Without replacement the counts vary less than multinomial ones, by the factor (total - 5) / (total - 1).
        statistic, _ = chisquare(of_class.numpy())
        assert 1e-5 < chi2.sf(statistic * (total - 1) / (total - 5), total - 1) < 1 - 1e-5


def test_fewer_slots_are_shared_evenly_too():
    kept = fill(memory(30), [[0] * 40, [1] * 4, [2] * 20])
    assert kept.all()["y"].bincount().tolist() == [13, 4, 13]
    numbers = set(kept.all()["number"].tolist())
    kept.shrink(12)
    assert kept.all()["y"].bincount().tolist() == [4, 4, 4]
    assert set(kept.all()["number"].tolist()) < numbers
    twin = fill(memory(12), [[0] * 40, [1] * 4, [2] * 20])
    assert sorted(kept.all()["number"].tolist()) == sorted(twin.all()["number"].tolist()), "by the same tickets"


@pytest.mark.parametrize("slots", [20, 30])
def test_goes_on_from_a_reservoir_as_runs_have_it(slots):
    run = fill(memory(20, store=Reservoir), [[0] * 60, [1] * 40])
    kept = memory(slots)
    kept.load_state_dict(run.state_dict())
    assert kept.size == 20
    assert kept.all()["number"].equal(run.all()["number"])
    kept.add(number=torch.arange(100, 200), y=torch.tensor([2, 3]).repeat(50))
    assert kept.all()["y"].bincount().tolist() == [5, 5, 5, 5]
    assert not kept.storing.tickets[20:].any(), "of samples that were dropped"


@pytest.mark.parametrize("held", [0, 3])
def test_fewer_slots_that_are_enough_leave_all_where_it_was(held):
    kept = fill(memory(9), [[0, 1, 0]] if held else [])
    before, tickets = kept.all(), kept.storing.tickets[:held].tolist()
    kept.shrink(4)
    assert (kept.size, len(kept), kept.storing.tickets[:held].tolist()) == (4, held, tickets)
    assert {name: values.tolist() for name, values in before.items()} == {
        name: values.tolist() for name, values in kept.all().items()
    }
