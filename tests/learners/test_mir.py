"""MIR: what is replayed is what a step on the new batch alone would harm most, found by trying."""

from itertools import combinations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from moca import Batch, Model
from moca.learners.mir import MIR, Interfered
from moca.memory import Memory, Past, Reservoir
from moca.random import Random
from tests.learners.conftest import task

LABELS = [0, 1, 2, 0, 3, 1, 2, 0, 3, 1]
OLD = [i for i, y in enumerate(LABELS) if y < 2]
LR = 0.7


@pytest.fixture
def model():
    """With BatchNorm, so that it matters which samples are passed together."""
    torch.manual_seed(0)
    return Model(nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, 3)), nn.Linear(3, 6))


@pytest.fixture
def make(attached):
    """A memory of twelve slots of which ten are taken, in the second task: six samples are of old classes."""

    def make(count=10, lr=LR, tasks=((0, 1), (2, 3)), **options):
        learner = attached(MIR(**options), *tasks, lr=torch.tensor(lr))
        drawing = Interfered(Random(0, "draw"), learner)
        memory = Memory(12, Reservoir(12, Random(0, "store")), drawing)
        memory.add(image=images()[:count], y=torch.tensor(LABELS[:count]))
        return learner, memory

    return make


def images():
    return torch.randn(10, 3, generator=torch.Generator().manual_seed(1))


def new():
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(2))
    return Batch(x=x, y=torch.tensor([2, 3, 3, 2]))


def harm(model, rows, lr=LR):
    """By how much the loss of each of these stored samples rises in a step that is made and taken back."""
    state = {name: value.clone() for name, value in model.state_dict().items()}
    x, y = images()[rows], torch.tensor(LABELS)[rows]
    losses = []
    for step in (False, True):
        model.load_state_dict(state)
        if step:
            optimiser = torch.optim.SGD(model.parameters(), lr=lr)
            F.cross_entropy(model(new().x), new().y).backward()
            optimiser.step()
            optimiser.zero_grad()
        losses.append(F.cross_entropy(model(x), y, reduction="none").detach())
    model.load_state_dict(state)
    return dict(zip(rows, (losses[1] - losses[0]).tolist(), strict=True))


@pytest.mark.parametrize("count", [1, 2, 3, 5, 6])
def test_of_all_ways_to_choose_the_one_that_is_harmed_most(make, model, count):
    _, memory = make()
    harmed = harm(model, OLD)
    best = max(combinations(OLD, count), key=lambda rows: sum(harmed[i] for i in rows))
    chosen = memory.drawing.choose(count, memory, new()).tolist()
    assert sorted(chosen) == sorted(best)
    assert chosen == sorted(best, key=harmed.get, reverse=True)


def test_the_step_is_that_of_the_learning_rate(make, model):
    """Another one harms other samples, and one of nothing none: the first of the pool are kept."""
    learner, memory = make()
    tiny, long = ([*sorted(OLD, key=harm(model, OLD, lr).get, reverse=True)] for lr in (0.01, 20.0))
    assert tiny != long
    for lr, expected in ((0.01, tiny), (20.0, long)):
        learner.lr.fill_(lr)
        assert memory.drawing.choose(6, memory, new()).tolist() == expected
    learner.lr.fill_(0.0)
    plain = Past(Random(5, "draw"), learner).choose(10, memory, None)
    memory.drawing.random = Random(5, "draw")
    assert memory.drawing.choose(4, memory, new()).tolist() == plain[:4].tolist()


def test_only_candidates_are_chosen(make):
    learner, memory = make(candidates=4)
    for seed in range(10):
        pool = Past(Random(seed, "draw"), learner).choose(4, memory, None).tolist()
        memory.drawing.random = Random(seed, "draw")
        assert set(memory.drawing.choose(2, memory, new()).tolist()) < set(pool)
        memory.drawing.random = Random(seed, "draw")
        assert sorted(memory.drawing.choose(4, memory, new()).tolist()) == sorted(pool)


def test_where_there_is_nothing_to_choose_the_network_is_not_asked(make, monkeypatch):
    learner, memory = make(candidates=3)
    monkeypatch.setattr(memory.drawing, "_interference", None)
    pool = Past(Random(0, "draw"), learner).choose(4, memory, None)
    assert memory.drawing.choose(4, memory, new()).equal(pool)


def test_fewer_candidates_than_are_to_be_replayed_are_as_many_as_these(make):
    _, memory = make(candidates=1)
    assert len(set(memory.drawing.choose(5, memory, new()).tolist())) == 5


@pytest.mark.parametrize("stored", range(3, 11))
def test_old_ones_first_then_others_and_never_an_empty_slot(make, model, stored):
    """Nor do the others or the empty slots, which hold zeros, change which old ones are harmed most."""
    _, memory = make(stored)
    old = [i for i in OLD if i < stored]
    harmed = harm(model, old)
    chosen = memory.drawing.choose(stored, memory, new()).tolist()
    assert chosen[: len(old)] == sorted(old, key=harmed.get, reverse=True)
    assert sorted(chosen) == list(range(stored))


def test_no_old_sample_at_all(make):
    _, memory = make(tasks=((4, 5), (0, 1, 2, 3)))
    assert len(set(memory.drawing.choose(4, memory, new()).tolist())) == 4


def test_the_first_task_and_a_draw_without_new_samples_are_random(make):
    for given, tasks in ((new(), ((0, 1, 2, 3),)), (None, ((0, 1), (2, 3)))):
        learner, memory = make(tasks=tasks)
        expected = Past(Random(0, "draw"), learner).choose(3, memory, None)
        assert memory.drawing.choose(3, memory, given).equal(expected)


def test_choosing_leaves_no_trace(make, model):
    _, memory = make()
    model.bf16 = True
    state = {name: value.clone() for name, value in model.state_dict().items()}
    memory.drawing.choose(3, memory, new())
    assert all(value.equal(state[name]) for name, value in model.state_dict().items())
    assert all(p.grad is None and p.requires_grad for p in model.parameters())
    assert model.bf16


def test_weights_that_nothing_uses_make_no_step(make, model):
    model.encoder.register_parameter("unused", nn.Parameter(torch.ones(2)))
    _, memory = make()
    assert memory.drawing._stepped(new())["encoder.unused"].tolist() == [1, 1]


def test_frozen_weights_make_no_step(make, model):
    _, memory = make()
    model.encoder.requires_grad_(False)
    before = model.encoder[0].weight.clone()
    stepped = memory.drawing._stepped(new())
    assert stepped["encoder.0.weight"].equal(before)
    assert not stepped["head.weight"].equal(model.head.weight)


@pytest.mark.parametrize("old", [[True, False, True, True], [False, False, False, True], [False] * 4])
def test_only_old_rows_count_and_only_from_the_second_task_on(attached, make_batch, recorder, old):
    mir, first = attached(MIR(), (0, 1), (2, 3), perturbation=recorder), attached(MIR(), (2, 3))
    batch, replay = make_batch([2, 3, 3]), make_batch([0, 2, 1, 1], seed=1, old=old)
    assert list(first.losses(batch, replay)) == list(mir.losses(batch)) == ["new"]
    mir.begin_task(task(4))
    losses = mir.losses(batch, replay)
    rows = [i for i in range(4) if old[i]]
    logits = mir.model.classify(replay.features[rows] + 1)  # what the recorder adds
    expected = F.cross_entropy(logits, replay.y[rows]).item() if rows else 0
    assert losses["replay"].item() == pytest.approx(expected, rel=1e-5)


def test_a_candidate_at_least():
    from moca import MocaError

    with pytest.raises(MocaError):
        MIR(candidates=0)
