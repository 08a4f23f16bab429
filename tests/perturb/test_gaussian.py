"""Gaussian noise: isotropic, of unit length unless the paper's literal formula is asked for."""

import math

import pytest
import torch
from scipy import stats

from moca import perturbation, sphere
from moca.batch import Batch
from moca.random import Random
from tests.perturb.helpers import OLD, make, moved, network, scene


@pytest.mark.parametrize("unit", [True, False])
@pytest.mark.parametrize("lam", [0.8, 2.0])
def test_against_a_loop(unit, lam):
    replay, new = scene(network())
    f = make(f"gaussian:lambda={lam},unit={unit}", seed=3)(replay, new)
    n = Random(3, "perturb").normal(*replay.features.shape)
    torch.testing.assert_close(f, moved(replay.features, n, OLD, lam, unit))


def test_the_direction_is_isotropic():
    n = perturbation("gaussian").direction(Batch(features=torch.ones(4000, 8)), Batch())
    for j in range(8):
        assert stats.kstest(n[:, j].numpy(), "norm").pvalue > 1e-3
    assert (n.T @ n / 4000 - torch.eye(8)).abs().max() < 5 * math.sqrt(2 / 4000)


@pytest.mark.parametrize(("lam", "expected"), [(0.5, 26.6), (0.8, 38.7), (1, 45.0), (1.5, 56.3), (2, 63.4), (4, 76.0)])
def test_unit_noise_rotates_by_the_table(lam, expected):
    h = Random(0, "p").normal(1000, 512).abs()
    angles = sphere.angle(perturbation(f"gaussian:lambda={lam}")(Batch(features=h)), h).rad2deg()
    assert angles.mean().item() == pytest.approx(expected, abs=0.05 + 4 * angles.std().item() / math.sqrt(1000))


def test_literal_noise_rotates_as_far_with_lambda_over_the_root_of_the_dimension():
    h = Random(0, "p").normal(1000, 512).abs()
    literal = perturbation(f"gaussian:unit=false,lambda={2 / math.sqrt(512)}")(Batch(features=h))
    angles = sphere.angle(literal, h).rad2deg()
    assert angles.mean().item() == pytest.approx(63.4, abs=0.05 + 4 * angles.std().item() / math.sqrt(1000))


def test_the_paper_s_literal_lambda_is_pure_noise():
    h = Random(0, "p").normal(1000, 512).abs()
    angles = sphere.angle(perturbation("gaussian:unit=false")(Batch(features=h)), h).rad2deg()
    assert angles.mean().item() == pytest.approx(88.7, abs=0.3)
