"""vMF noise: rotations of the paper's and the official code's formula, and the official sampler's bias."""

import math

import pytest
import torch

from moca import perturbation, sphere
from moca.batch import Batch
from moca.random import Random
from tests.perturb.helpers import OLD, make, moved, network, scene

H = Random(0, "p").normal(1500, 512).abs()


@pytest.mark.parametrize("noise", ["sample", "difference"])
@pytest.mark.parametrize("kappa", [0.0, 1.0, 100.0, 1e5])
def test_against_a_loop(noise, kappa):
    replay, new = scene(network())
    f = make(f"vmf:kappa={kappa},noise={noise}", seed=3)(replay, new)
    u = replay.features.detach() / replay.features.detach().norm(dim=1, keepdim=True)
    z = sphere.sample_vmf(u, kappa, Random(3, "perturb"))
    torch.testing.assert_close(f, moved(replay.features, z if noise == "sample" else z - u, OLD))


@pytest.mark.parametrize(
    ("kappa", "lam", "paper", "code"),
    [
        (1, 0.8, 38.6, 52.5), (1, 1, 44.9, 67.5), (1, 1.5, 56.2, 93.2), (1, 2, 63.3, 106.3),
        (100, 0.8, 34.3, 51.5), (100, 1, 39.6, 64.8), (100, 1.5, 49.0, 87.8), (100, 2, 55.0, 100.1),
        (1000, 0.8, 17.3, 45.8), (1000, 1, 19.5, 54.8), (1000, 1.5, 23.6, 70.6), (1000, 2, 26.3, 80.0),
    ],
)  # fmt: skip
def test_rotation_table(kappa, lam, paper, code):
    for noise, expected in (("sample", paper), ("difference", code)):
        f = perturbation(f"vmf:kappa={kappa},lambda={lam},noise={noise}")(Batch(features=H))
        angles = sphere.angle(f, H).rad2deg()
        assert angles.mean().item() == pytest.approx(expected, abs=0.05 + 4 * angles.std().item() / math.sqrt(len(H)))


@pytest.mark.parametrize(
    ("kappa", "official", "exact"),
    [(50, -0.436, 0.097), (100, -0.123, 0.188), (200, 0.219, 0.344), (500, 0.592, 0.612)],
)
def test_the_official_sampler_is_biased_and_the_exact_one_is_not(kappa, official, exact):
    for sampler, expected in (("official", official), ("exact", exact)):
        z = perturbation(f"vmf:kappa={kappa},sampler={sampler}").direction(Batch(features=H), Batch())
        assert sphere.angle(z, H).cos().mean().item() == pytest.approx(expected, abs=0.005)


@pytest.mark.parametrize("kappa", [0, 1, 10])
def test_the_official_sampler_is_exact_up_to_ten(kappa):
    directions = [
        perturbation(f"vmf:kappa={kappa},sampler={s}").direction(Batch(features=H), Batch())
        for s in ("exact", "official")
    ]
    assert torch.equal(*directions)


def test_a_sample_for_every_row():
    z = perturbation("vmf:kappa=10").direction(Batch(features=torch.ones(5, 30)), Batch())
    assert (torch.pdist(z) > 0.1).all()
