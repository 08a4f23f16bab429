"""The memory as a whole: what goes in comes out, unchanged, in every field of a row."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from moca import MocaError
from moca.memory import Memory, Reservoir, Uniform, build_memory
from moca.random import Random
from moca.settings.memory import Memory as MemorySettings


def memory(size, seed=0):
    return Memory(size, Reservoir(size, Random(seed, "store")), Uniform(Random(seed, "draw")))


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
        kept.add(**samples(first, count))
        for number, slot in enumerate(twin.slots(count).tolist(), start=first):
            if slot < size:
                slow[slot] = number
        first += count
        assert kept.offered == first
        assert len(kept) == min(first, size)
        assert kept.all()["y"].tolist() == [n for n in slow if n is not None]
        assert_rows_belong_together(kept.all())
        drawn = kept.draw(6)
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
        build_memory(MemorySettings.model_construct(size=size, per="total"), 10, 99, 0, torch.device("cpu"))


@pytest.mark.parametrize(("per", "size"), [("total", 7), ("class", 70)])
def test_total_and_per_class_size(per, size):
    kept = build_memory(MemorySettings(size=7, per=per), classes=10, offered=1000, seed=0, device=torch.device("cpu"))
    kept.add(y=torch.arange(1000))
    assert kept.size == len(kept) == len(kept.all()["y"]) == size


def test_no_more_slots_than_samples_come():
    kept = build_memory(MemorySettings(size=10**9), classes=10, offered=30, seed=0, device=torch.device("cpu"))
    kept.add(y=torch.arange(30))
    assert len(kept.fields["y"]) == 31
    assert kept.all()["y"].tolist() == list(range(30))


def test_what_is_stored_and_what_is_drawn_have_their_own_random_numbers():
    drawn_from, left_alone = (build_memory(MemorySettings(size=5), 10, 100, 0, torch.device("cpu")) for _ in range(2))
    for first in range(0, 100, 10):
        for kept in (drawn_from, left_alone):
            kept.add(y=torch.arange(first, first + 10))
        drawn_from.draw(3)
    assert drawn_from.all()["y"].equal(left_alone.all()["y"])
