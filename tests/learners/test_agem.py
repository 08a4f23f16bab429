"""A-GEM: the projection in closed form, over all parameters at once; only samples of earlier tasks count."""

import pytest
import torch
from torch import nn

from moca import Batch, Model
from moca.learners.agem import AGEM, Past
from moca.memory import Memory, Reservoir
from moca.random import Random
from tests.learners.conftest import task

OLD = [True, False, True, True]


@pytest.fixture
def model():
    """With an encoder, so that the gradients of several layers are projected together."""
    torch.manual_seed(0)
    return Model(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3)), nn.Linear(3, 6))


def batch(model, labels, seed, old=None):
    """Samples with features that hang on the encoder's weights."""
    x = torch.randn(len(labels), 3, generator=torch.Generator().manual_seed(seed))
    h = model.encode(x)
    fields = {} if old is None else {"old": torch.tensor(old)}
    return Batch(x=x, y=torch.tensor(labels), features=h, logits=model.classify(h), **fields)


def batches(model, seed, old=OLD, labels=(2, 3, 3)):
    """A new batch, by default of the second task's classes, and a replayed one of both."""
    return batch(model, labels, seed), batch(model, [0, 2, 1, 1], 100 + seed, old)


def gradients(loss, model):
    """As one long list of Python numbers, which are float64."""
    slopes = torch.autograd.grad(loss, list(model.parameters()), retain_graph=True)
    return [value for slope in slopes for value in slope.flatten().tolist()]


def dot(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


def projected(g, r):
    """The textbook's formula."""
    if dot(g, r) >= 0:
        return g
    return [x - dot(g, r) / dot(r, r) * y for x, y in zip(g, r, strict=True)]


def taken(agem, losses, model):
    """What the parameters move by in a step of gradient descent with a learning rate of 1, as a list."""
    before = torch.cat([p.detach().flatten().clone() for p in model.parameters()])
    agem.update(losses, torch.optim.SGD(model.parameters(), lr=1.0))
    return (before - torch.cat([p.detach().flatten() for p in model.parameters()])).tolist()


@pytest.mark.parametrize("conflicting", [True, False])
def test_against_the_textbook_parameter_by_parameter(attached, model, conflicting):
    """New classes push old ones away; old classes that come back do not."""
    state = {name: value.clone() for name, value in model.state_dict().items()}
    for seed in range(5):
        model.load_state_dict(state)
        agem = attached(AGEM(), (0, 1), (2, 3))
        losses = agem.losses(*batches(model, seed, labels=(2, 3, 3) if conflicting else (0, 1, 1)))
        assert set(losses) == {"new", "reference"}
        g, r = (gradients(losses[name], model) for name in ("new", "reference"))
        assert (dot(g, r) < 0) == conflicting
        step = taken(agem, losses, model)
        assert step == pytest.approx(projected(g, r), abs=1e-6)
        assert dot(step, r) >= -1e-5 * dot(r, r), "no step may raise the loss on old samples"
        assert (step == pytest.approx(g, abs=1e-6)) == (not conflicting)
        if conflicting:
            assert dot(step, r) == pytest.approx(0, abs=1e-5)
            assert dot(step, step) < dot(g, g), "a projection is never longer"


def test_replayed_samples_hold_the_step_back_and_never_pull_it(attached, model):
    """With a gradient of new samples that is zero, there is no step at all, whatever the old ones ask for."""
    agem = attached(AGEM(), (0, 1), (2, 3))
    losses = agem.losses(*batches(model, 0))
    assert max(map(abs, taken(agem, losses | {"new": 0 * losses["new"]}, model))) == 0


def test_the_gradients_of_a_step_before_are_forgotten(attached, model):
    agem = attached(AGEM(), (0, 1), (2, 3))
    losses = agem.losses(*batches(model, 1))
    expected = projected(*(gradients(losses[name], model) for name in ("new", "reference")))
    for p in model.parameters():
        p.grad = torch.full_like(p, 100.0)
    assert taken(agem, losses, model) == pytest.approx(expected, abs=1e-5)


def test_frozen_parameters_stay(attached, model):
    model.encoder[0].requires_grad_(False)
    agem = attached(AGEM(), (0, 1), (2, 3))
    before = model.encoder[0].weight.clone()
    losses = agem.losses(*batches(model, 2))
    agem.update(losses, torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=1.0))
    assert torch.equal(model.encoder[0].weight, before)


@pytest.mark.parametrize("stored", [False, True])
def test_the_first_task_is_plain_training(attached, model, stored):
    agem = attached(AGEM(), (2, 3))
    new, replay = batches(model, 3, old=[False] * 4)
    losses = agem.losses(new, *([replay] if stored else []))
    assert list(losses) == ["new"]
    g = gradients(losses["new"], model)
    assert taken(agem, losses, model) == pytest.approx(g, abs=1e-6)


def test_with_an_empty_memory_only_new_data_count(attached, model):
    assert list(attached(AGEM(), (0, 1), (2, 3)).losses(batches(model, 3)[0])) == ["new"]


@pytest.mark.parametrize("old", [OLD, [False, False, False, True], [True] * 4])
def test_only_old_rows_count(attached, make_batch, slow, old):
    agem = attached(AGEM(), (0, 1), (2, 3))
    h = torch.randn(4, 3, generator=torch.Generator().manual_seed(1))
    y = torch.tensor([0, 2, 1, 1])
    replay = Batch(x=h, y=y, features=h, old=torch.tensor(old))
    new = make_batch([2, 3, 3])
    losses = agem.losses(new, replay)
    rows = [i for i in range(4) if old[i]]
    assert losses["reference"].item() == pytest.approx(slow.cross_entropy(h[rows], y[rows]), rel=1e-5)
    assert losses["new"].item() == pytest.approx(slow.cross_entropy(new.features, new.y), rel=1e-5)


def test_where_no_row_is_old_nothing_is_held_back(attached, model):
    agem = attached(AGEM(), (0, 1), (2, 3))
    losses = agem.losses(*batches(model, 4, old=[False] * 4))
    assert losses["reference"].item() == 0
    g = gradients(losses["new"], model)
    step = taken(agem, losses, model)
    assert step == pytest.approx(g, abs=1e-6)
    assert all(torch.isfinite(p).all() for p in model.parameters())


def test_the_reference_is_perturbed(attached, make_batch, slow, recorder):
    agem = attached(AGEM(), (0, 1), (2, 3), perturbation=recorder)
    replay = make_batch([0, 2, 1, 1], seed=1, old=OLD)
    losses = agem.losses(make_batch([2, 3]), replay)
    rows = [0, 2, 3]
    moved = replay.features.detach()[rows] + 1
    assert losses["reference"].item() == pytest.approx(slow.cross_entropy(moved, replay.y[rows]), rel=1e-5)


class TestPast:
    """What is replayed: samples of earlier tasks before any other."""

    @pytest.fixture
    def memory(self, attached):
        """Twelve slots of which ten are taken: six samples of the first task, four of the second."""
        self.learner = attached(AGEM(), (0, 1))
        memory = Memory(12, Reservoir(12, Random(0, "store")), Past(Random(0, "draw"), self.learner))
        memory.add(y=torch.tensor([0, 1, 2, 0, 3, 1, 2, 0, 3, 1]))
        return memory

    def test_old_ones_first(self, memory):
        self.learner.begin_task(task(2, 3))
        for count in range(1, 11):
            for _ in range(20):
                y = memory.draw(count)["y"].tolist()
                assert len(y) == count
                assert sum(c < 2 for c in y) == min(count, 6)

    def test_every_old_one_comes_and_comes_alone(self, memory):
        self.learner.begin_task(task(2, 3))
        rows = torch.cat([memory.drawing.choose(3, memory, None) for _ in range(100)])
        assert sorted(rows.unique().tolist()) == [0, 1, 3, 5, 7, 9]

    def test_in_the_first_task_any(self, memory):
        self.learner.first_task = True
        self.learner.number.zero_()
        rows = torch.cat([memory.drawing.choose(3, memory, None) for _ in range(100)])
        assert sorted(rows.unique().tolist()) == list(range(10)), "and never an empty slot"

    def test_it_is_what_a_gem_replays_by(self):
        assert AGEM.draw is Past
