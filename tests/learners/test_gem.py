"""GEM: its quadratic programme against other solvers and its conditions, its step in closed form."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from torch import nn

from moca import Model
from moca.learners.gem import GEM, multipliers
from moca.memory import Memory, Reservoir, Uniform
from moca.random import Random
from tests.engine.twins.gem import best_weights
from tests.learners.conftest import task


@st.composite
def gradients(draw):
    """A new gradient and those of one to five past tasks, some parallel, opposed, zero, or of quite other lengths."""
    tasks, size = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    G = rng.standard_normal((tasks, size)) * 10.0 ** rng.integers(-2, 3, (tasks, 1))
    if draw(st.booleans()):
        G[-1] = draw(st.sampled_from([1.0, -1.0, 0.0, 2.0])) * G[0]
    return rng.standard_normal(size), G, draw(st.sampled_from([0.0, 0.1, 0.5, 2.0]))


@settings(max_examples=40)
@given(gradients())
def test_the_programme_s_conditions(made):
    """Karush, Kuhn and Tucker: feasible, no way down within the bounds, and no force but at a bound."""
    g, G, gamma = made
    v = multipliers(G @ G.T, G @ g, gamma)
    P = G @ G.T + 1e-3 * np.eye(len(G))
    slope, scale = P @ v + G @ g, np.abs(P).max() * (1 + np.abs(v).max()) + np.abs(G @ g).max()
    assert (v >= gamma).all()
    assert (slope >= -1e-9 * scale).all()
    assert np.abs(slope * (v - gamma)).max() <= 1e-9 * scale * (1 + np.abs(v).max())


@settings(max_examples=40)
@given(gradients())
def test_against_trying_every_set_of_bounds(made):
    g, G, gamma = made
    v = multipliers(G @ G.T, G @ g, gamma)
    P = torch.tensor(G @ G.T + 1e-3 * np.eye(len(G)))
    best = best_weights(P, torch.tensor(G @ g), gamma).numpy()
    assert v == pytest.approx(best, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_against_another_solver(seed):
    rng = np.random.default_rng(seed)
    G, g = rng.standard_normal((4, 6)), rng.standard_normal(6)
    P, q = G @ G.T + 1e-3 * np.eye(4), G @ g
    other = minimize(
        lambda v: v @ P @ v / 2 + q @ v, np.ones(4), jac=lambda v: P @ v + q, bounds=[(0.5, None)] * 4,
        method="SLSQP", options={"ftol": 1e-14},
    )  # fmt: skip
    assert multipliers(G @ G.T, q, 0.5) == pytest.approx(other.x, abs=1e-5)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Model(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3)), nn.Linear(3, 6))


@pytest.fixture
def make(attached, model):
    """GEM in the third task, with four samples of the first, three of the second and one of the current task."""

    def make(labels=(0, 2, 1, 1, 3, 0, 4, 2), tasks=((0, 1), (2, 3), (4, 5)), **options):
        given = {name: options.pop(name) for name in ("perturbation", "augment") if name in options}
        memory = Memory(10, Reservoir(10, Random(0, "store")), Uniform(Random(0, "draw")))
        if labels:
            memory.add(image=images(len(labels)), y=torch.tensor(labels))
        return attached(GEM(**options), *tasks, memory=memory, **given)

    return make


def images(count):
    return torch.randn(count, 3, generator=torch.Generator().manual_seed(1))


def new(model, labels=(4, 5, 4)):
    from moca import Batch

    x = torch.randn(len(labels), 3, generator=torch.Generator().manual_seed(2))
    h = model.encode(x)
    return Batch(x=x, y=torch.tensor(labels), features=h, logits=model.classify(h))


def slopes(losses, model):
    """The gradient of each term as one row of numbers in float64."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    return {
        name: np.concatenate([s.double().flatten() for s in torch.autograd.grad(loss, parameters, retain_graph=True)])
        for name, loss in losses.items()
    }


def taken(gem, losses, model):
    """What the parameters move by at a learning rate of 1."""
    before = torch.cat([p.detach().flatten().clone() for p in model.parameters() if p.requires_grad])
    gem.update(losses, torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=1.0))
    after = torch.cat([p.detach().flatten() for p in model.parameters() if p.requires_grad])
    return (before - after).double().numpy()


def test_a_loss_for_each_past_task_over_all_that_is_stored_of_it(make, model):
    losses = make().losses(new(model))
    assert list(losses) == ["new", "task 1", "task 2"]
    y = torch.tensor([0, 2, 1, 1, 3, 0, 4, 2])
    for name, rows in (("task 1", [0, 2, 3, 5]), ("task 2", [1, 4, 7])):
        expected = F.cross_entropy(model(images(8)[rows]), y[rows])
        assert losses[name].item() == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize("gamma", [0.0, 0.5])
def test_no_task_is_worked_against(make, model, gamma):
    gem = make(gamma=gamma)
    losses = gem.losses(new(model))
    rows = slopes(losses, model)
    g, G = rows["new"], np.stack([rows["task 1"], rows["task 2"]])
    assert (G @ g < 0).any(), "new classes push old ones away"
    step = taken(gem, losses, model)
    best = best_weights(torch.tensor(G @ G.T + 1e-3 * np.eye(2)), torch.tensor(G @ g), gamma).numpy()
    assert step == pytest.approx(g + G.T @ best, abs=1e-5)
    assert (G @ step >= -2e-3 * best).all(), "but for what the ridge of the programme lets pass"


def test_one_past_task_without_a_margin_is_a_projection(make, model):
    """A-GEM's formula with that task's gradient r: g - (g.r / r.r) r, the ridge aside."""
    gem = make(labels=(0, 1, 1), tasks=((0, 1), (2, 3)), gamma=0)
    losses = gem.losses(new(model, (2, 3, 3)))
    rows = slopes(losses, model)
    g, r = rows["new"], rows["task 1"]
    assert g @ r < 0
    assert taken(gem, losses, model) == pytest.approx(g - g @ r / (r @ r + 1e-3) * r, abs=1e-5)


def test_where_nothing_is_in_the_way_the_step_is_that_of_the_new_loss(make, model):
    gem = make(labels=(0, 1, 1), tasks=((0, 1), (2, 3)))
    losses = gem.losses(new(model, (0, 1, 0)))
    rows = slopes(losses, model)
    assert rows["new"] @ rows["task 1"] > 0
    assert taken(gem, losses, model) == pytest.approx(rows["new"], abs=1e-6)


def test_a_gradient_across_is_not_in_the_way(make, model):
    gem, bias = make(), model.head.bias
    losses = {"new": bias[0].clone(), "task 1": bias[1].clone(), "task 2": bias[0] + bias[1]}
    step = taken(gem, losses, model)
    assert step[-6:].tolist() == [1, 0, 0, 0, 0, 0]
    assert not step[:-6].any()


@pytest.mark.parametrize(
    ("labels", "tasks", "expected"),
    [
        ((0, 1), ((0, 1),), ["new"]),
        ((), ((0, 1), (2, 3)), ["new"]),
        ((2, 3), ((0, 1), (2, 3), (4, 5)), ["new", "task 2"]),
        ((0, 1), ((0, 1), (0, 4)), ["new", "task 1"]),
    ],
)
def test_tasks_of_which_nothing_is_stored_set_no_bound(make, model, labels, tasks, expected):
    """Nor does the current one; a class that comes back belongs to the task in which it came first."""
    assert list(make(labels, tasks).losses(new(model))) == expected


def test_stored_samples_are_augmented_and_perturbed_task_by_task(make, model, recorder):
    gem = make(perturbation=recorder, augment=lambda x: x + 10)
    batch = new(model)
    losses = gem.losses(batch)
    assert [replay.y.tolist() for replay, _ in recorder.calls] == [[0, 1, 1, 0], [2, 3, 2]]
    assert all(given is batch and replay.old.all() for replay, given in recorder.calls)
    replay = recorder.calls[1][0]
    torch.testing.assert_close(replay.x, images(8)[[1, 4, 7]] + 10)
    expected = F.cross_entropy(model.classify(model.encode(replay.x) + 1), replay.y)
    torch.testing.assert_close(losses["task 2"], expected)


def test_frozen_parameters_stay_and_old_gradients_are_forgotten(make, model):
    model.encoder[0].requires_grad_(False)
    before = model.encoder[0].weight.clone()
    gem = make()
    losses = gem.losses(new(model))
    rows = slopes(losses, model)
    G = np.stack([rows["task 1"], rows["task 2"]])
    for p in model.parameters():
        p.grad = torch.full_like(p, 100.0)
    step = taken(gem, losses, model)
    assert torch.equal(model.encoder[0].weight, before)
    assert step == pytest.approx(rows["new"] + G.T @ multipliers(G @ G.T, G @ rows["new"], 0.5), abs=1e-5)


def test_a_loss_that_is_no_number_is_left_to_the_guard(make, model):
    gem = make()
    losses = gem.losses(new(model))
    gem.update(losses | {"task 1": losses["task 1"] * torch.nan}, torch.optim.SGD(model.parameters(), lr=1.0))
    assert all(torch.isfinite(p).all() for p in model.parameters())


def test_every_pass_over_a_task_moves_the_running_statistics(make):
    torch.manual_seed(0)
    model = Model(nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)), nn.Linear(3, 6))
    gem = make()
    gem.attach(model, 6, memory=gem.memory)
    for classes in ((0, 1), (2, 3), (4, 5)):
        gem.begin_task(task(*classes))
    batch = new(model)
    mean = model.encoder[1].running_mean.clone()
    gem.losses(batch)
    for rows in ([0, 2, 3, 5], [1, 4, 7]):
        mean = 0.9 * mean + 0.1 * model.encoder[0](images(8)[rows]).mean(0)
    torch.testing.assert_close(model.encoder[1].running_mean, mean)
