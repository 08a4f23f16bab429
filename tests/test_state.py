"""A state is what an object names in `remembers`: live, copied, and loaded in place."""

import pytest
import torch
from torch import nn

from moca.random import Random
from moca.state import Stateful, layout, longer, on, placed_tensors


class Part(Stateful):
    """One of everything."""

    remembers = ("count", "rows", "random", "layer", "none")

    def __init__(self):
        self.count, self.rows, self.none = 0, torch.zeros(3), None
        self.random, self.layer = Random(0, "x"), nn.Linear(2, 1)
        self.forgotten = 5


class More(Part):
    """What its base remembers, and more."""

    remembers = ("more",)

    def __init__(self):
        super().__init__()
        self.more = "a"


def changed(part):
    part.count, part.none = 7, torch.ones(2)
    part.rows += 1
    part.random.uniform(5)
    with torch.no_grad():
        part.layer.weight.fill_(3)
    part.forgotten = 6
    return part


def test_a_state_is_live_and_its_copy_is_not():
    random = Random(0, "x")
    live, copy = random.state(), random.state_dict()
    random.uniform(5)
    assert live["count"] == 5
    assert copy["count"] == 0


def test_every_tensor_of_a_nested_state_is_found_with_its_path():
    a, b, c = torch.zeros(1), torch.ones(2), torch.full((3,), 2.0)
    found = placed_tensors({"a": a, "plain": 3, "in": [b, {"deep": (c, None)}]})
    assert [(path, id(t)) for path, t in found] == [(("a",), id(a)), (("in", 0), id(b)), (("in", 1, "deep", 0), id(c))]


def test_every_tensor_of_a_nested_state_moves_to_a_device():
    state = {"a": torch.zeros(1), "plain": 3, "in": [torch.ones(2), {"deep": torch.ones(3), "none": None}]}
    assert {t.device.type for _, t in placed_tensors(on("meta", state))} == {"meta"}
    same = on("cpu", state)
    assert same["a"] is state["a"]
    assert (same["plain"], same["in"][1]["none"]) == (3, None)


def test_everything_remembered_comes_back_and_nothing_else():
    part, other = changed(More()), More()
    part.more = "b"
    assert list(part.state()) == ["count", "rows", "random", "layer", "none", "more"]
    other.load_state_dict(part.state_dict())
    assert (other.count, other.more, other.forgotten) == (7, "b", 5)
    assert other.rows.tolist() == [1, 1, 1]
    assert other.none.tolist() == [1, 1]
    assert other.random.count == 5
    assert other.layer.weight.tolist() == [[3, 3]]


def test_tensors_are_loaded_in_place():
    """A recorded graph goes on writing to the tensors that it was recorded with."""
    part = Part()
    held = [part.rows, part.random.count, part.layer.weight]
    part.load_state_dict(changed(Part()).state_dict())
    assert all(a is b for a, b in zip(held, (part.rows, part.random.count, part.layer.weight), strict=True))
    assert held[0].tolist() == [1, 1, 1]


def test_what_has_grown_since_is_replaced():
    part, other = Part(), Part()
    part.rows = torch.arange(5)
    other.load_state_dict(part.state_dict())
    assert other.rows.tolist() == [0, 1, 2, 3, 4]


def test_a_loaded_state_is_not_shared():
    state, part = changed(Part()).state_dict(), Part()
    part.load_state_dict(state)
    part.none += 1
    part.rows += 1
    assert state["none"].tolist() == [1, 1]
    assert state["rows"].tolist() == [1, 1, 1]


def test_what_there_is_not_yet_can_come_and_go():
    fresh, part = Part().state_dict(), changed(Part())
    part.load_state_dict(fresh)
    assert part.none is None and part.count == 0


def test_a_missing_entry_is_told():
    state = Part().state_dict()
    del state["rows"]
    with pytest.raises(KeyError, match="rows"):
        Part().load_state_dict(state)


def test_a_layout_is_the_same_until_a_tensor_moves_or_a_plain_value_changes():
    part = More()
    before = layout(part.state())
    part.rows += 1
    part.random.uniform(5)
    assert layout(part.state()) == before
    part.count = 1
    assert layout(part.state()) != before
    part.count = 0
    assert layout(part.state()) == before
    part.rows = part.rows.clone()
    assert layout(part.state()) != before


def test_what_is_empty_has_no_layout():
    assert layout({"state": {}, "groups": [], "none": None}) is None
    assert layout({"a": {"b": {}}, "c": 1}) == layout({"c": 1})


@pytest.mark.parametrize("rows", [torch.arange(3), torch.ones(2, 4), torch.tensor([True])])
@pytest.mark.parametrize("fill", [0, 1])
def test_rows_of_more_classes_come_behind(rows, fill):
    made = longer(rows, 5, fill)
    assert made.dtype == rows.dtype
    assert (
        made.tolist() == rows.tolist() + torch.full((5 - len(rows), *rows.shape[1:]), fill, dtype=rows.dtype).tolist()
    )
    assert longer(rows, len(rows), fill).equal(rows)
