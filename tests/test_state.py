import torch

from moca.random import Random
from moca.state import tensors_in


def test_a_state_is_live_and_its_copy_is_not():
    random = Random(0, "x")
    live, copy = random.state(), random.state_dict()
    random.uniform(5)
    assert live["count"] == 5
    assert copy["count"] == 0


def test_every_tensor_of_a_nested_state_is_found():
    a, b, c = torch.zeros(1), torch.ones(2), torch.full((3,), 2.0)
    found = list(tensors_in({"a": a, "plain": 3, "in": [b, {"deep": (c, None)}]}))
    assert [id(t) for t in found] == [id(a), id(b), id(c)]
