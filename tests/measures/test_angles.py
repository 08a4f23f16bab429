"""Angle deviation: features placed at known angles, and loops."""

import math

import pytest
import torch

from moca import sphere
from moca.measures.angles import angle_deviation, histogram, mean_over


def around(direction, angles):
    """Features at these angles (degrees) around an axis, in pairs on both sides of it, of any length."""
    turned = []
    for a in angles:
        for side in (1, -1):
            c, s = math.cos(math.radians(a)), side * math.sin(math.radians(a))
            x, y = direction
            turned.append([c * x - s * y, s * x + c * y])
    return torch.tensor(turned) * torch.arange(1, len(turned) + 1).unsqueeze(1)


def test_features_placed_at_known_angles():
    features = torch.cat([around((1.0, 0.0), [10, 10]), around((0.0, 1.0), [5, 35])])
    labels = torch.tensor([7] * 4 + [2] * 4)
    found = angle_deviation(features, labels)
    assert found == pytest.approx({7: 10, 2: 20}, abs=1e-4)


def test_against_loops():
    generator = torch.Generator().manual_seed(0)
    features, labels = torch.randn(40, 5, generator=generator), torch.randint(0, 4, (40,), generator=generator)
    found = angle_deviation(features, labels)
    for c in range(4):
        unit = [f / f.norm() for f in features[labels == c].double()]
        mean = sum(unit) / len(unit)
        mean = mean / mean.norm()
        assert found[c] == pytest.approx(math.degrees(sum(math.acos(u @ mean) for u in unit) / len(unit)), abs=1e-6)


def test_isotropic_noise_adds_its_own_angle():
    """Unit noise at lambda = 1 turns a feature by 45 degrees, at right angles to the spread that it had."""
    generator = torch.Generator().manual_seed(1)
    axis = torch.zeros(512)
    axis[0] = 1
    tangent = torch.randn(400, 512, generator=generator)
    features = sphere.rotate(axis.expand(400, -1), tangent, math.radians(30))
    noisy = sphere.displace(features, torch.randn(400, 512, generator=generator), 1.0)
    labels = torch.zeros(400, dtype=torch.int64)
    assert angle_deviation(features, labels)[0] == pytest.approx(30, abs=0.2)
    expected = math.degrees(math.acos(math.cos(math.pi / 4) * math.cos(math.pi / 6)))
    assert angle_deviation(noisy, labels)[0] == pytest.approx(expected, abs=0.5)


def test_one_sample_has_no_deviation_and_classes_count_the_same():
    features, labels = torch.randn(4, 3), torch.tensor([0, 1, 1, 1])
    assert angle_deviation(features, labels).keys() == {1}
    assert mean_over({0: 10.0, 1: 30.0, 5: 99.0}, [0, 1, 2]) == 20
    assert math.isnan(mean_over({0: 10.0}, [3]))


def test_a_histogram_of_angles():
    angles = torch.tensor([0.0, 1.9, 2.1, 90.0, 180.0]).deg2rad()
    counts = histogram(angles, 90)
    assert counts.sum() == 5
    assert {k: counts[k].item() for k in counts.nonzero().flatten().tolist()} == {0: 2, 1: 1, 45: 1, 89: 1}
