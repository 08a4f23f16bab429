"""Drawing without replacement, every stored sample equally likely."""

from itertools import combinations, permutations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2, chisquare

from moca.memory import Memory, Uniform, uniform
from moca.memory.uniform import distinct
from moca.random import Random


class Chosen(Uniform):
    """Some rows before any other."""

    rows: torch.Tensor

    def eligible(self, memory):
        return self.rows


def holding(size, stored):
    """A memory whose first rows hold samples."""
    memory = Memory(size, None, Uniform(Random(0, "unused")))
    memory.rewrite(y=torch.arange(stored))
    return memory


@pytest.fixture(params=["tickets", "floyd"])
def way(request, monkeypatch):
    """Small memories give every slot a ticket, large ones only draw as many numbers as they need: here by force."""
    if request.param == "floyd":
        monkeypatch.setattr(uniform, "_FEW", 0)
    return request.param


@pytest.mark.parametrize("few", [0, 4096])
@given(empty=st.integers(0, 10), stored=st.integers(0, 20), data=st.data(), seed=st.integers(0, 99))
def test_different_slots_among_the_stored_ones(few, empty, stored, data, seed):
    count, size = data.draw(st.integers(0, stored)), max(1, stored + empty)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uniform, "_FEW", few)
        chosen = Uniform(Random(seed, "draw")).choose(count, holding(size, stored)).tolist()
    assert len(set(chosen)) == len(chosen) == count
    assert all(0 <= i < stored for i in chosen)


@pytest.mark.parametrize("count", [1, 3, 7])
def test_every_slot_equally_often(way, count):
    memory = holding(11, 8)
    drawing, times = Uniform(Random(0, "draw")), torch.zeros(11, dtype=torch.int64)
    for _ in range(2000):
        times[drawing.choose(count, memory)] += 1
    assert times[8:].sum() == 0
    # Without replacement the counts vary less than multinomial ones, by the factor (8 - count) / 7.
    statistic, _ = chisquare(times[:8].numpy())
    assert 1e-5 < chi2.sf(statistic * 7 / (8 - count), 7) < 1 - 1e-5


def test_every_order_equally_often():
    """By tickets; of the other way see `TestDistinct`."""
    drawing, memory = Uniform(Random(1, "draw")), holding(4, 4)
    times = dict.fromkeys(permutations(range(4), 2), 0)
    for _ in range(3000):
        times[tuple(drawing.choose(2, memory).tolist())] += 1
    assert chisquare(list(times.values())).pvalue > 1e-5


def test_largest_tickets_win():
    memory, drawing = holding(6, 5), Chosen(Random(5, "draw"))
    drawing.rows = torch.tensor([True, False, True, True, True, True])
    tickets = Random(5, "draw").uniform(6, dtype=torch.float64).tolist()
    ranked = sorted((i for i in range(5) if drawing.rows[i]), key=lambda i: -tickets[i])
    assert drawing.choose(3, memory).tolist() == ranked[:3]
    assert Uniform(Random(5, "draw")).choose(5, memory).tolist() == sorted(range(5), key=lambda i: -tickets[i])


def test_draws_are_independent_and_resume_exactly(way):
    memory = holding(50, 50)
    drawing, other = Uniform(Random(2, "draw")), Uniform(Random(2, "draw"))
    first = drawing.choose(10, memory)
    other.load_state_dict(drawing.state_dict())
    second = drawing.choose(10, memory)
    assert not second.equal(first)
    assert other.choose(10, memory).equal(second)


class TestEligible:
    """A policy may put some rows before the others."""

    @given(rows=st.lists(st.booleans(), min_size=1, max_size=20), data=st.data(), seed=st.integers(0, 99))
    def test_others_come_only_where_there_are_too_few(self, rows, data, seed):
        stored = data.draw(st.integers(1, len(rows)))
        count = data.draw(st.integers(1, stored))
        drawing = Chosen(Random(seed, "draw"))
        drawing.rows = torch.tensor(rows)
        chosen = drawing.choose(count, holding(len(rows), stored)).tolist()
        wanted = [i for i in range(stored) if rows[i]]
        assert len(set(chosen)) == count and all(i < stored for i in chosen)
        assert sum(rows[i] for i in chosen) == min(count, len(wanted))

    def test_every_eligible_slot_equally_often(self):
        memory, drawing = holding(8, 7), Chosen(Random(3, "draw"))
        drawing.rows = torch.tensor([True, False, True, True, False, True, True, True])
        times = torch.zeros(8, dtype=torch.int64)
        for _ in range(3000):
            times[drawing.choose(2, memory)] += 1
        assert times[[1, 4, 7]].sum() == 0
        statistic, _ = chisquare(times[[0, 2, 3, 5, 6]].numpy())
        assert 1e-5 < chi2.sf(statistic * 4 / 3, 4) < 1 - 1e-5

    def test_also_in_a_large_memory(self, monkeypatch):
        monkeypatch.setattr(uniform, "_FEW", 0)
        drawing = Chosen(Random(3, "draw"))
        drawing.rows = torch.tensor([False, True, False, True])
        assert sorted(drawing.choose(2, holding(4, 4)).tolist()) == [1, 3]


def floyd(count, below, random):
    """Floyd's algorithm, a number after the other, with the numbers that `distinct` draws."""
    chosen = []
    shares = random.uniform(count, dtype=torch.float64).tolist()
    for share, last in zip(shares, range(below - count, below), strict=True):
        drawn = int(share * (last + 1))
        chosen.append(last if drawn in chosen else drawn)
    return [chosen[i] for i in random.permutation(count).tolist()]


class TestDistinct:
    """Different numbers in time that does not depend on how many there are to choose from."""

    @given(below=st.integers(1, 60), data=st.data(), seed=st.integers(0, 10**6))
    def test_different_and_in_range(self, below, data, seed):
        count = data.draw(st.integers(0, below))
        chosen = distinct(count, torch.tensor(below), Random(seed, "draw")).tolist()
        assert len(set(chosen)) == len(chosen) == count
        assert all(0 <= i < below for i in chosen)

    @given(below=st.integers(1, 60), data=st.data(), seed=st.integers(0, 10**6))
    def test_equals_floyd_s_algorithm_one_by_one(self, below, data, seed):
        count = data.draw(st.integers(0, below))
        chosen = distinct(count, torch.tensor(below), Random(seed, "draw")).tolist()
        assert chosen == floyd(count, below, Random(seed, "draw"))

    @given(count=st.integers(1, 200), seed=st.integers(0, 10**6))
    def test_all_of_them(self, count, seed):
        assert sorted(distinct(count, torch.tensor(count), Random(seed, "draw")).tolist()) == list(range(count))

    @pytest.mark.parametrize("drawn", ["zeros", "last", "down", "repeated"])
    @pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 9, 17, 32, 64, 65])
    @pytest.mark.parametrize("more", [0, 1, 7])
    def test_the_worst_draws(self, drawn, count, more):
        """Chains of taken numbers, as long as they can be."""
        below = count + more
        numbers = {
            "zeros": torch.zeros(count, dtype=torch.int64),
            "last": torch.arange(more, more + count),
            # Every place but the first finds the last number of the place before it, which is taken: one long chain.
            "down": (torch.arange(more, more + count) - 1).clamp_min(0),
            "repeated": torch.arange(count) % 2,
        }[drawn]

        class Rigged(Random):
            def below(self, bound):
                return numbers.minimum(bound - 1)

        expected = []
        for i, number in enumerate(numbers.minimum(torch.arange(more, more + count)).tolist()):
            expected.append(more + i if number in expected else number)
        random = Rigged(0, "draw")
        chosen = distinct(count, torch.tensor(below), random).tolist()
        assert chosen == [expected[i] for i in Random(0, "draw").permutation(count).tolist()]
        assert len(set(chosen)) == count

    @pytest.mark.parametrize(("below", "count", "draws"), [(5, 3, 6000), (4, 4, 3000)])
    def test_every_choice_and_order_equally_often(self, below, count, draws):
        random, times = Random(0, "draw"), dict.fromkeys(permutations(range(below), count), 0)
        for _ in range(draws):
            times[tuple(distinct(count, torch.tensor(below), random).tolist())] += 1
        assert chisquare(list(times.values())).pvalue > 1e-5
        subsets = [sum(times[order] for order in permutations(chosen)) for chosen in combinations(range(below), count)]
        if len(subsets) > 1:
            assert chisquare(subsets).pvalue > 1e-5

    @pytest.mark.parametrize("below", [10, 10**4, 10**9])
    def test_the_cost_is_that_of_what_is_drawn(self, below):
        random = Random(0, "draw")
        distinct(10, torch.tensor(below), random)
        assert random.count == 2 * 10, "a number and a place each"

    def test_a_large_memory_takes_no_number_for_each_slot(self):
        size = uniform._FEW + 1
        drawing = Uniform(Random(0, "draw"))
        drawing.choose(32, holding(size, size - 5))
        assert drawing.random.count == 64
        drawing.choose(32, holding(size, 40))
        assert drawing.random.count == 128

    def test_large_numbers_are_reached(self):
        """Of a billion, a thousand draws come near either end."""
        chosen = distinct(1000, torch.tensor(10**9), Random(0, "draw"))
        assert chosen.min() < 2 * 10**7 and chosen.max() > 98 * 10**7
