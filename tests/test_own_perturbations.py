"""The perturbations of benchmarks/own_perturbations.py: the frame that all share, and each against its closed form."""

import pytest
import torch
from benchmarks import own_perturbation as script
from benchmarks import own_perturbations as own

from moca import Batch, sphere
from moca.perturb.wap import WAP
from moca.random import Random
from tests.perturb.helpers import CLASSES, OLD, ROWS, network, scene
from tests.perturb.test_base import Operations
from tests.report.made_results import comparison, result

D = 7


def attached(made, model=None):
    return made.attach(Random(3, "perturb"), model, 0.1, CLASSES)


def unit(v):
    return v / v.norm()


@pytest.mark.parametrize("made", [own.Varied, own.Matched, own.Kept, own.Rival])
def test_old_rows_move_on_their_sphere_and_no_other_row_does(made):
    model = network()
    replay, new = scene(model)
    f = attached(made(lam=1.5), model)(replay, new)
    assert torch.equal(f[~OLD], replay.features[~OLD])
    torch.testing.assert_close(f.norm(dim=1), replay.features.norm(dim=1))
    assert (sphere.angle(f, replay.features)[OLD] > 1e-3).any()
    (gradient,) = torch.autograd.grad(f.sum(), new.features, allow_unused=True)
    assert gradient is None


@pytest.mark.parametrize("made", [own.Varied, own.Matched, own.Kept, own.Rival, own.Balanced, own.SteeredWAP])
def test_the_operations_do_not_depend_on_the_data(made):
    """As of every perturbation, so that a step can be captured: fixed shapes, no wait for a value."""
    model = network()
    seen = []
    for old in (OLD, torch.ones(ROWS, dtype=torch.bool), torch.zeros(ROWS, dtype=torch.bool)):
        replay, new = scene(model)
        p = attached(made(), model)
        p(replay, new)
        with Operations() as operations:
            p(replay.replace(old=old), new)
        seen.append(operations.names)
    assert seen[0] == seen[1] == seen[2]
    waits = (
        {"aten._local_scalar_dense.default"} if made not in (own.Kept, own.Balanced, own.SteeredWAP) else set()
    )  # one_hot's, on a CPU
    assert not {"aten.nonzero.default", "aten.lift_fresh.default", *waits} & set(seen[0])


def test_varied_is_noise_of_random_length():
    replay = Batch(features=torch.ones(4000, D))
    lengths = attached(own.Varied()).direction(replay, replay).norm(dim=1)
    assert 0 <= lengths.min() < 0.01
    assert 0.99 < lengths.max() <= 1 + 1e-6
    assert lengths.mean() == pytest.approx(0.5, abs=0.02)


def test_matched_features_have_the_angle_of_new_samples_to_their_class_vector():
    model = network()
    replay, new = scene(model)
    vectors = model.class_vectors.detach()
    near = Random(1, "near").normal(ROWS, vectors.shape[1])
    replay.features = 3 * vectors[replay.y] + 0.3 * near  # collapsed, but for the last one
    replay.features[-1] = near[-1] - near[-1] @ unit(vectors[replay.y[-1]]) * unit(vectors[replay.y[-1]])
    new.features = vectors[new.y] + near
    f = attached(own.Matched(steepest=1e-3), model)(replay, new)
    for i in range(ROWS):
        theta = unit(replay.features[i]) @ unit(vectors[replay.y[i]])
        phi = unit(new.features[i]) @ unit(vectors[new.y[i]])
        if OLD[i] and phi > 0:
            got = unit(f[i]) @ unit(vectors[replay.y[i]])
            torch.testing.assert_close(got, torch.minimum(theta, phi), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(f[-1], replay.features[-1])


def test_kept_moments_are_those_of_a_loop():
    made, random = attached(own.Kept(momentum=0.75)), Random(0, "features")
    means, squares = {}, {}
    for step in range(4):
        h, y = random.normal(ROWS, D), torch.arange(ROWS) % (2 + step)
        made.direction(Batch(features=h, y=y), Batch(features=h, y=y))
        for c in set(y.tolist()):
            rows = [unit(h[i]) for i in range(ROWS) if y[i] == c]
            for kept, new in ((means, sum(rows) / len(rows)), (squares, sum(r * r for r in rows) / len(rows))):
                kept[c] = 0.75 * kept[c] + 0.25 * new if c in kept else new
    expected = [squares[c] - means[c] ** 2 for c in range(5)]
    expected.append(sum(expected) / 5)  # a class that never came
    torch.testing.assert_close(made.variance(), torch.stack(expected), rtol=1e-4, atol=1e-6)

    h, y = random.normal(6000, D), torch.arange(6000) % CLASSES
    noise = made.direction(Batch(features=h, y=y), Batch(features=h[:0], y=y[:0]))
    for c in range(CLASSES):
        torch.testing.assert_close(noise[y == c].var(0), made.variance()[c], rtol=0.2, atol=1e-3)


def test_kept_moments_survive_a_checkpoint_and_more_classes():
    replay, new = scene(network())
    made = attached(own.Kept())
    made(replay, new)
    other = attached(own.Kept())
    other.load_state_dict(made.state_dict())
    assert torch.equal(made(replay, new), other(replay, new))
    other.grow(CLASSES + 2)
    assert other.variance().shape[0] == CLASSES + 2
    torch.testing.assert_close(other.variance()[:CLASSES], made.variance())


def test_rival_is_a_share_of_the_way_to_the_nearest_other_class_vector():
    model = network()
    replay, new = scene(model)
    f = attached(own.Rival(lam=0.5), model)(replay, new)
    vectors = [unit(v) for v in model.class_vectors.detach()]
    for i in range(ROWS):
        if OLD[i]:
            u, moved = unit(replay.features[i].detach()), unit(f[i].detach())
            rival = max((v for c, v in enumerate(vectors) if c != replay.y[i]), key=lambda v: float(u @ v))
            tangent = unit(rival - (u @ rival) * u)
            torch.testing.assert_close(moved, unit(u + (moved @ tangent) / (moved @ u) * tangent), rtol=1e-4, atol=1e-5)
            assert 0 < (moved @ tangent) / (moved @ u) < 0.5


def sided(taken_for_old):
    """A `Balanced` that has seen this share of new samples taken for old ones, and what it does to a scene."""
    model = network()
    replay, new = scene(model)
    made = attached(own.Balanced(lam=0.5, even=0.2, momentum=0.5), model)
    made.direction(replay, new)
    made.update_balance = lambda replay, new: made.are_old
    made.excess.fill_(taken_for_old - made.even)
    return model, replay, made(replay, new)


@pytest.mark.parametrize(("taken_for_old", "w"), [(0.0, 1.0), (0.15, 0.25), (0.2, 0.0), (0.3, -0.5), (0.9, -1.0)])
def test_balanced_moves_the_losing_side_towards_its_rival_on_the_other_one(taken_for_old, w):
    model, replay, f = sided(taken_for_old)
    vectors = [unit(v) for v in model.class_vectors.detach()]
    torch.testing.assert_close(f.norm(dim=1), replay.features.norm(dim=1))
    for i in range(ROWS):
        length = max(w if OLD[i] else -w, 0)
        u, moved = unit(replay.features[i].detach()), unit(f[i].detach())
        others = vectors[4:] if OLD[i] else vectors[:4]  # the old classes are 0 to 3
        rival = max(others, key=lambda v: float(u @ v))
        tangent = unit(rival - (u @ rival) * u)
        gone = float((moved @ tangent) / (moved @ u))
        torch.testing.assert_close(moved, unit(u + gone * tangent), rtol=1e-4, atol=1e-5)
        assert (0 < gone < 0.5 * length) if length else gone == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(("taken_for_old", "share"), [(0.0, 1.0), (0.15, 0.25), (0.2, 0.0), (0.9, 0.0)])
def test_steered_wap_goes_the_way_of_wap_as_far_as_old_classes_lose(taken_for_old, share):
    model = network()
    replay, new = scene(model)
    made = attached(own.SteeredWAP(lam=1.5, even=0.2), model)
    made(replay, new)
    made.balance.update_balance = lambda replay, new: None
    made.balance.excess.fill_(taken_for_old - made.even)
    f, n = made(replay, new), attached(WAP(), model).direction(replay, new)
    for i in range(ROWS):
        h, gone = replay.features[i], 1.5 * share * OLD[i]
        torch.testing.assert_close(f[i], h.norm() * unit(unit(h) + gone * unit(n[i])), rtol=1e-4, atol=1e-5)


def test_balanced_counts_new_samples_that_are_taken_for_an_old_class():
    model = network()
    replay, new = scene(model)
    vectors = model.class_vectors.detach()
    new.features = vectors[torch.tensor([0, 1, 4, 5, 5, 3, 4, 4])]  # three of eight at an old class's vector
    made = attached(own.Balanced(even=0.25, momentum=0.5), model)
    made(replay, new)
    assert made.are_old.tolist() == [1, 1, 1, 1, 0, 0]
    assert made.excess.item() == pytest.approx(0.5 * (3 / 8 - 0.25))
    other = attached(own.Balanced(even=0.25, momentum=0.5), model)
    other.load_state_dict(made.state_dict())
    assert torch.equal(made(replay, new), other(replay, new))


def test_what_is_ours_is_held_against_the_best_of_the_others_with_each_learner(tmp_path):
    accuracies = {
        "er": {"none": (0.2, 0.3), "wap": (0.3, 0.4), "benchmarks.own_perturbations.Balanced": (0.4, 0.42)},
        "er_ace": {"none": (0.5, 0.6), "wap": (0.4, 0.7), "benchmarks.own_perturbations.Balanced": (0.5, 0.5)},
    }
    made = comparison(
        tmp_path,
        {
            f"{learner}+{perturb}": [result(tmp_path, a, s, learner=learner, perturb=perturb) for s, a in enumerate(by)]
            for learner, rows in accuracies.items()
            for perturb, by in rows.items()
        },
    )
    learners = script.by_learner(made)
    assert [script.best(rows).run.perturb.name for rows in learners.values()] == ["wap", "none"]
    gains = script.gains(learners, "Balanced")
    assert [gains[learner].spread.mean for learner in learners] == pytest.approx([0.06, -0.05])
    assert "| -5.00 |" in script.table(learners)
