"""Classifier angles, Fisher score, calibration, confusion, forgetting, probe and BatchNorm distance, by hand."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from moca.measures.batch_norm import Moments
from moca.measures.calibration import reliability
from moca.measures.classifiers import angles_between_tasks
from moca.measures.confusion import by_task, confusion, forgetting_by_class
from moca.measures.fisher import angular_fisher_score
from moca.measures.lead import MULTIPLES, adjusted, summary
from moca.measures.probe import linear_probe, probe_predictions
from moca.measures.shift import distance


def test_angles_between_classifiers_at_known_places():
    places = torch.tensor([0.0, 20.0, 90.0, 130.0, 180.0]).deg2rad()
    vectors = torch.stack([places.cos(), places.sin()], 1) * torch.tensor([[1.0], [2.0], [3.0], [0.5], [1.0]])
    found = angles_between_tasks(vectors, [(0, 1), (2, 3), (4,)])
    expected = torch.tensor([[20, (90 + 130 + 70 + 110) / 4, 170], [100, 40, 70], [170, 70, math.nan]]).double()
    torch.testing.assert_close(found, expected, equal_nan=True, rtol=0, atol=1e-4)


def test_many_long_classifiers_need_no_more_memory_than_themselves_and_their_pairs():
    sizes = []

    class Sizes(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            made = function(*args, **kwargs or {})
            sizes.append(made.numel() if isinstance(made, torch.Tensor) else 0)
            return made

    with Sizes():
        angles_between_tasks(torch.randn(30, 100), [range(15), range(15, 30)])
    assert max(sizes) <= 30 * 100


@pytest.mark.parametrize("unit", [False, True])
def test_the_fisher_score_in_loops(unit):
    x, y = torch.randn(30, 4).double() + 1, torch.randint(0, 3, (30,))
    rows = [f / f.norm() if unit else f for f in x]

    def cosine(a, b):
        return (a @ b / (a.norm() * b.norm())).item()

    mean = sum(rows) / len(rows)
    within = between = 0.0
    for c in set(y.tolist()):
        mine = [f for f, label in zip(rows, y.tolist(), strict=True) if label == c]
        centre = sum(mine) / len(mine)
        within += sum(1 - cosine(f, centre) for f in mine)
        between += len(mine) * (1 - cosine(centre, mean))
    assert angular_fisher_score(x, y, unit) == pytest.approx(within / between, rel=1e-9)


def test_the_fisher_score_of_nothing_between_classes():
    assert math.isnan(angular_fisher_score(torch.ones(4, 2), torch.zeros(4, dtype=torch.int64)))


def test_calibration_by_hand():
    probabilities = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.45, 0.55], [0.6, 0.4]], dtype=torch.float64)
    labels = torch.tensor([0, 1, 1, 1, 1])
    found = reliability(probabilities, labels, bins=5)
    # (0.4, 0.6]: 0.55 right, 0.6 wrong. (0.6, 0.8]: 0.7 right, 0.8 wrong. (0.8, 1]: 0.9 right.
    assert found.counts == [0, 0, 2, 2, 1]
    assert found.centres == pytest.approx([0.1, 0.3, 0.5, 0.7, 0.9])
    assert found.confidence[2:] == pytest.approx([0.575, 0.75, 0.9])
    assert found.accuracy[2:] == pytest.approx([0.5, 0.5, 1.0])
    assert found.ece == pytest.approx((2 * 0.075 + 2 * 0.25 + 0.1) / 5)
    assert found.overconfidence == pytest.approx((2 * 0.075 + 2 * 0.25 - 0.1) / 5)


def test_confidences_of_nothing_and_above_one_by_rounding_have_a_bin():
    assert reliability(torch.tensor([[0.0, 0.0], [0.0, 1 + 1e-7]]), torch.tensor([0, 1]), 5).counts == [1, 0, 0, 0, 1]


def test_a_classifier_that_is_as_sure_as_right_is_calibrated():
    probabilities = torch.tensor([[0.75, 0.25]]).expand(4, -1)
    assert reliability(probabilities, torch.tensor([0, 0, 0, 1])).ece == pytest.approx(0)


def test_confusion_counts_and_tasks():
    labels, predicted = torch.tensor([0, 0, 1, 2, 2, 3]), torch.tensor([0, 3, 1, 0, 2, 3])
    counts = confusion(predicted, labels, 4)
    assert counts.tolist() == [[1, 0, 0, 1], [0, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 1]]
    expected = torch.tensor([[2 / 3, 1 / 3], [1 / 3, 2 / 3]]).double()
    torch.testing.assert_close(by_task(counts, [(0, 1), (2, 3)]), expected)
    uneven = by_task(confusion(predicted, labels, 5), [(0, 1, 2), (3,), (4,)])
    assert uneven.tolist() == [[0.8, 0.2, 0], [0, 1, 0], [0, 0, 0]]


def test_what_is_taken_from_new_classes_goes_to_old_ones():
    scores = torch.tensor([[0.0, 1.0], [0.0, 3.0], [2.0, 1.0], [0.0, 1.0]])  # class 1 is new
    found = adjusted(scores, torch.tensor([0, 0, 0, 1]), torch.tensor([0.0, 2.0]), [0, 1, 2])
    assert found.old == [1 / 3, 2 / 3, 1]
    assert found.new == [1, 0, 0]
    assert found.all == [0.5, 0.5, 0.75]


@pytest.mark.parametrize(("best", "nearest"), [([-1, -0.5, 1.5], -0.5), ([0.2, 2], 0.2), (MULTIPLES, 0)])
def test_of_several_best_adjustments_the_nearest_to_none_is_named(best, nearest):
    numbers = summary([0.8 if multiple in best else 0.5 for multiple in MULTIPLES])
    assert (numbers["best adjust"], numbers["accuracy, at best (%)"]) == (nearest, 80)


def test_forgetting_is_from_the_best_since_a_class_came():
    stages = [[0.9, 0.1, 0.8], [0.95, 0.7, 0.8], [0.4, 0.75, 0.5], [0.5, 0.6, 0.4]]
    assert forgetting_by_class(stages, [0, 1, 3]) == pytest.approx([0.45, 0.15, None])
    assert forgetting_by_class([[None, 1.0], [None, 0.5]], [0, 0]) == [None, 0.5]
    assert forgetting_by_class([[0.5], [0.7]], [0]) == pytest.approx([-0.2]), "what was gained is less than nothing"


def test_the_probe_is_at_the_minimum():
    x, y = torch.randn(80, 3).double(), torch.randint(0, 3, (80,))
    w = linear_probe(x, y, 3).requires_grad_()
    loss = F.cross_entropy(F.linear(x, w[:, :-1], w[:, -1]), y) + 1e-3 / 2 * w[:, :-1].square().sum()
    (gradient,) = torch.autograd.grad(loss, w)
    assert gradient.abs().max() < 1e-4


def test_a_probe_tells_apart_what_a_line_can():
    y = torch.arange(60) % 3
    x = 5 * F.one_hot(y, 3).double() + torch.randn(60, 3).double() * 0.1
    scaled = x * torch.tensor([1.0, 1e3, 1e-3]) + 7
    assert (probe_predictions(scaled, y, scaled, 4) == y).all()


def test_where_features_say_nothing_the_probe_says_the_most_frequent_class():
    """At their mean the bias alone decides; the second feature speaks for class 0."""
    y = torch.tensor([0] * 10 + [1] * 10 + [2] * 40)
    x = torch.randn(60, 3, generator=torch.Generator().manual_seed(0))
    x[:, 1] += 2.0 * (y == 0)
    assert probe_predictions(x, y, x.mean(0, keepdim=True), 3).tolist() == [2]


def test_the_distance_of_statistics():
    a = Moments(torch.tensor([0.0, 1.0]), torch.tensor([1.0, 4.0]))
    assert distance(a, a) == 0
    b = Moments(torch.tensor([1.0, 1.0]), torch.tensor([1.0, 16.0]))
    assert distance(a, b) == distance(b, a) == pytest.approx(math.sqrt((1 / 1 + 4 / 10) / 2))
    dead = Moments(torch.tensor([0.0, 3.0]), torch.tensor([1.0, 0.0]))
    assert distance(dead, Moments(torch.tensor([1.0, 3.0]), torch.tensor([1.0, 0.0]))) == pytest.approx(1)
