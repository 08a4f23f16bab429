"""The memory as a whole: what goes in comes out, unchanged, in every field of a row."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from moca import MocaError
from moca.data import Protocol
from moca.engine.learning import Learning
from moca.memory import Memory, Reservoir, Store, Uniform
from moca.random import Random
from moca.settings import Run, validate


def memory(size, seed=0):
    return Memory(size, Reservoir(size, Random(seed, "store")), Uniform(Random(seed, "draw")))


def in_a_run(offered, classes=10, **settings):
    """The memory that a run has."""
    run = validate(Run, {"model": "mlp:width=2,features=2", "device": "cpu", **settings})
    return Learning(run, Protocol((0.0,), (1.0,)), (1, 2, 2), classes, offered).memory


def samples(first, count):
    """Samples whose every field can be told from their number."""
    number = torch.arange(first, first + count)
    pixels = torch.arange(12).view(3, 2, 2)
    return {
        "image": ((number.view(-1, 1, 1, 1) * 7 + pixels) % 256).to(torch.uint8),
        "y": number,
        "task": number // 10,
        "logits": number.view(-1, 1) * torch.tensor([0.5, -1.25]),
    }


def assert_rows_belong_together(rows):
    expected = samples(0, 10_000)
    for name, values in rows.items():
        assert values.dtype == expected[name].dtype
        assert values.equal(expected[name][rows["y"]]), name


@given(size=st.integers(1, 15), batches=st.lists(st.integers(1, 20), min_size=1, max_size=8))
def test_equals_a_list_of_rows(size, batches):
    """A list that is offered the same samples one by one, at the slots that a second reservoir gives."""
    kept, slow, twin, first = memory(size), [None] * size, Reservoir(size, Random(0, "store")), 0
    for count in batches:
        slots = twin.slots(samples(first, count), kept).tolist()
        kept.add(**samples(first, count))
        for number, slot in enumerate(slots, start=first):
            if slot < size:
                slow[slot] = number
        first += count
        assert kept.offered == first
        assert len(kept) == min(first, size)
        assert kept.all()["y"].tolist() == [n for n in slow if n is not None]
        assert_rows_belong_together(kept.all())
        drawn = kept.draw(6)
        assert kept.all()["y"][drawn.pop("slot")].equal(drawn["y"])
        assert len(drawn["y"]) == min(6, first, size)
        assert_rows_belong_together(drawn)


def test_draws_all_when_fewer_are_stored_than_asked_for():
    kept = memory(10)
    kept.add(**samples(0, 4))
    assert sorted(kept.draw(32)["y"].tolist()) == [0, 1, 2, 3]
    kept.add(**samples(4, 96))
    assert sorted(kept.draw(32)["y"].tolist()) == sorted(kept.all()["y"].tolist())
    assert len(kept.draw(3)["y"]) == 3


def test_fills_in_order_of_arrival():
    kept = memory(10)
    kept.add(**samples(0, 6))
    kept.add(**samples(6, 4))
    assert kept.all()["y"].tolist() == list(range(10))


def test_a_batch_larger_than_the_memory():
    kept = memory(3)
    kept.add(**samples(0, 500))
    rows = kept.all()["y"].tolist()
    assert len(set(rows)) == 3
    assert max(rows) > 2, "nothing after the first three was kept"
    assert_rows_belong_together(kept.all())


def test_images_stay_the_raw_bytes_they_were():
    images = torch.arange(256, dtype=torch.uint8).view(4, 1, 8, 8)
    before = images.clone()
    kept = memory(4)
    kept.add(image=images, y=torch.arange(4))
    images.zero_()
    assert kept.all()["image"].dtype == torch.uint8
    assert kept.all()["image"].equal(before)


def test_drawn_rows_are_copies():
    kept = memory(4)
    kept.add(**samples(0, 4))
    kept.draw(2)["image"].fill_(255)
    assert_rows_belong_together(kept.all())


def test_resumes_exactly():
    kept, other = memory(8), memory(8)
    kept.add(**samples(0, 30))
    kept.draw(5)
    state = kept.state_dict()
    expected = []
    for first in (30, 43, 50):
        kept.add(**samples(first, 7))
        expected.append(kept.draw(5)["y"])
    other.load_state_dict(state)
    for first, rows in zip((30, 43, 50), expected, strict=True):
        other.add(**samples(first, 7))
        assert other.draw(5)["y"].equal(rows)
    assert other.offered == kept.offered == 51
    assert other.all()["y"].equal(kept.all()["y"])
    assert other.all()["logits"].equal(kept.all()["logits"])


def test_nothing_is_kept_of_samples_that_were_dropped():
    kept = memory(8)
    kept.add(**samples(5, 100))
    stored = kept.all()["y"].clone()
    for name, rows in kept.state_dict()["fields"].items():
        assert len(rows) == 9
        assert not rows[8].any(), name
        assert rows[:8].any(), name
    assert kept.all()["y"].equal(stored)


def test_resumes_with_the_slots_that_it_had():
    small, other = memory(8), memory(8)
    small.add(**samples(0, 20))
    small.shrink(3)
    other.load_state_dict(small.state_dict())
    assert (other.size, other.storing.size, len(other)) == (3, 3, 3)
    small.add(**samples(20, 50))
    other.add(**samples(20, 50))
    assert other.draw(5)["y"].tolist() == small.draw(5)["y"].tolist()


def test_resumes_from_an_empty_state():
    kept, other = memory(8), memory(8)
    other.load_state_dict(kept.state_dict())
    assert len(other) == 0
    for each in (kept, other):
        each.add(**samples(0, 30))
    assert other.all()["y"].equal(kept.all()["y"])


@pytest.mark.parametrize("size", [0, -1])
def test_no_slot_is_refused(size):
    with pytest.raises(MocaError, match="at least 1 slot"):
        memory(size)


@pytest.mark.parametrize(("per", "size"), [("total", 7), ("class", 70)])
def test_total_and_per_class_size(per, size):
    kept = in_a_run(1000, memory=f"7:per={per}")
    kept.add(y=torch.arange(1000))
    assert kept.size == len(kept) == len(kept.all()["y"]) == size


def test_no_more_slots_than_samples_come():
    kept = in_a_run(30, memory=10**9)
    kept.add(y=torch.arange(30))
    assert len(kept.fields["y"]) == 31
    assert kept.all()["y"].tolist() == list(range(30))


def test_as_many_slots_as_asked_for_where_nobody_knows_how_many_samples_come():
    assert in_a_run(None, memory=50).size == 50


def test_what_is_stored_and_what_is_drawn_have_their_own_random_numbers():
    drawn_from, left_alone = (in_a_run(100, memory=5) for _ in range(2))
    for first in range(0, 100, 10):
        for kept in (drawn_from, left_alone):
            kept.add(y=torch.arange(first, first + 10))
        drawn_from.draw(3)
    assert drawn_from.all()["y"].equal(left_alone.all()["y"])


def test_the_seed_of_the_memory_decides_what_is_kept_and_what_is_drawn():
    def kept(seed):
        made = in_a_run(100, memory=5, seed=seed)
        made.add(y=torch.arange(100))
        return made.all()["y"].tolist(), made.draw(3)["y"].tolist()

    assert kept(0) == kept("7:memory=0")
    assert kept(0) != kept("0:memory=1")


@given(size=st.integers(1, 15), batches=st.lists(st.integers(1, 20), min_size=1, max_size=8))
def test_the_count_on_the_device_is_that_of_the_host(size, batches):
    kept, first = memory(size), 0
    for count in batches:
        kept.add(**samples(first, count))
        first += count
        assert min(int(kept.count), size) == len(kept) == min(first, size)


def test_many_samples_at_once_are_the_same_as_one_by_one():
    """More than are offered in one go."""
    at_once, piecewise = memory(20), memory(20)
    at_once.add(y=torch.arange(2500))
    for first in range(0, 2500, 125):
        piecewise.add(y=torch.arange(first, first + 125))
    assert at_once.all()["y"].equal(piecewise.all()["y"])
    assert at_once.offered == piecewise.offered == 2500


class TestRewrite:
    """The whole content anew, as herding leaves it."""

    def test_holds_exactly_what_it_was_given(self):
        kept = Memory(8, None, Uniform(Random(0, "draw")))
        kept.rewrite(**samples(0, 7))
        kept.rewrite(**samples(50, 3))
        assert len(kept) == int(kept.count) == 3
        assert kept.all()["y"].tolist() == [50, 51, 52]
        assert_rows_belong_together(kept.all())
        assert sorted(kept.draw(8)["y"].tolist()) == [50, 51, 52], "nothing of before is drawn"
        kept.rewrite(**samples(70, 8))
        assert kept.all()["y"].tolist() == list(range(70, 78))

    def test_what_a_store_fills_is_left_to_it(self):
        with pytest.raises(ValueError, match="cannot be rewritten"):
            memory(4).rewrite(**samples(3, 2))

    def test_more_than_there_are_slots(self):
        with pytest.raises(ValueError, match="5 samples do not fit 4 slots"):
            Memory(4, None, Uniform(Random(0, "draw"))).rewrite(**samples(0, 5))

    def test_without_a_store_it_is_the_only_way(self):
        kept = Memory(4, None, Uniform(Random(0, "draw")))
        kept.rewrite(**samples(0, 4))
        other = Memory(4, None, Uniform(Random(0, "draw")))
        other.load_state_dict(kept.state_dict())
        assert other.all()["y"].tolist() == [0, 1, 2, 3]
        assert other.draw(2)["y"].equal(kept.draw(2)["y"])


class TestGrow:
    """More classes than there were when samples were stored."""

    def test_logits_of_new_classes_are_zero(self):
        kept = memory(8)
        kept.add(**samples(0, 5))
        before = kept.all()["logits"].clone()
        kept.grow(6)
        assert kept.all()["logits"].shape == (5, 6)
        assert kept.all()["logits"][:, :2].equal(before)
        assert not kept.all()["logits"][:, 2:].any()
        kept.add(**(samples(5, 2) | {"logits": torch.ones(2, 6)}))
        assert kept.all()["logits"][5:].equal(torch.ones(2, 6))

    def test_without_logits_nothing_changes(self):
        kept = memory(8)
        kept.grow(6)
        kept.add(y=torch.arange(3))
        kept.grow(7)
        assert kept.all()["y"].tolist() == [0, 1, 2]


def test_a_store_of_one_s_own_sees_the_samples():
    """What is kept may depend on what is offered: here even numbers only, the largest in the first slots."""

    class Even(Store):
        def slots(self, offered, memory):
            y = offered["y"]
            return torch.where(y % 2 == 0, y // 2 % self.size, self.size)

    kept = Memory(4, Even(4, Random(0, "store")), Uniform(Random(0, "draw")))
    kept.add(**samples(0, 12))
    assert kept.all()["y"].tolist() == [8, 10, 4, 6]
    assert_rows_belong_together(kept.all())


def test_what_a_prompt_shows_of_it():
    some = memory(3)
    assert repr(some) == "Memory of 0 samples in 3 slots"
    some.add(image=torch.zeros(2, 1, 4, 4, dtype=torch.uint8), y=torch.arange(2))
    assert repr(some) == "Memory of 2 samples in 3 slots; image: uint8 of (2, 1, 4, 4), y: int64 of (2,)"
