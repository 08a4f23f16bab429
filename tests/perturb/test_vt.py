"""Variation transfer: running class means against a loop over samples."""

import copy

import pytest
import torch

from moca import perturbation
from moca.batch import Batch
from moca.random import Random
from tests.perturb.helpers import CLASSES, make, moved, network, scene

D = 5


class LoopMeans:
    """Running class means, one sample at a time."""

    def __init__(self, momentum):
        self.momentum, self.means = momentum, {}

    def directions(self, h, y):
        for c in set(y.tolist()):
            members = [h[i] for i in range(len(h)) if y[i] == c]
            mean = sum(members) / len(members)
            if c in self.means:
                mean = self.momentum * self.means[c] + (1 - self.momentum) * mean
            self.means[c] = mean
        return torch.stack([h[i] - self.means[int(y[i])] for i in range(len(h))])


def batches(count, rows=7):
    """New batches with classes that come, go and come back."""
    random = Random(0, "batches")
    return [
        Batch(features=random.normal(rows, D), y=random.below(torch.full((rows,), 2)) + (i // 3) % 2 * 2)
        for i in range(count)
    ]


@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9])
def test_class_means_equal_a_loop(momentum):
    p, loop = perturbation(f"vt:momentum={momentum}", classes=CLASSES), LoopMeans(momentum)
    replay = Batch(features=Random(1, "p").normal(7, D))
    for new in batches(8):
        n = p.direction(replay, new)
        torch.testing.assert_close(n, loop.directions(new.features, new.y), rtol=1e-5, atol=1e-5)
    assert sorted(loop.means) == [0, 1, 2, 3]
    for c in range(CLASSES):
        torch.testing.assert_close(p.means[c], loop.means.get(c, torch.zeros(D)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("rows", "new_rows"), [(8, 8), (8, 4), (3, 8)])
def test_against_a_loop_with_any_sizes(rows, new_rows):
    model = network()
    replay, new = scene(model, rows, new_rows)
    n = LoopMeans(0.9).directions(new.features.detach(), new.y)
    n = torch.stack([n[i % new_rows] for i in range(rows)])
    torch.testing.assert_close(
        make("vt", model)(replay, new), moved(replay.features, n, replay.old), rtol=1e-4, atol=1e-5
    )


def test_center_of_the_batch():
    model = network()
    replay, new = scene(model)
    h = new.features.detach()
    mean = sum(h) / len(h)
    n = torch.stack([row - mean for row in h])
    torch.testing.assert_close(
        make("vt:center=batch", model)(replay, new), moved(replay.features, n, replay.old), rtol=1e-4, atol=1e-5
    )


def test_center_is_the_classifier_row():
    model = network()
    replay, new = scene(model)
    n = torch.stack([new.features[i] - model.head.weight[new.y[i]] for i in range(8)]).detach()
    torch.testing.assert_close(
        make("vt:center=classifier", model)(replay, new), moved(replay.features, n, replay.old), rtol=1e-4, atol=1e-5
    )


def test_a_class_of_one_sample_gives_no_direction():
    h = Random(0, "p").normal(3, D)
    new, replay = Batch(features=h, y=torch.tensor([4, 5, 5])), Batch(features=h)
    for p in (perturbation("vt", classes=CLASSES), perturbation("vt:fixed_angle=120", classes=CLASSES)):
        assert torch.equal(copy.deepcopy(p).direction(replay, new)[0], torch.zeros(D))
        f = p(replay, new)
        torch.testing.assert_close(f[0], h[0])
        assert not torch.allclose(f[1], h[1], atol=1e-2)


def test_samples_equal_up_to_rounding_give_no_direction():
    """A mean of equal samples is off by rounding: that is no direction."""
    h = (Random(0, "p").normal(1, D) / 3).expand(7, D)
    n = perturbation("vt", classes=CLASSES).direction(Batch(features=h), Batch(features=h, y=torch.full((7,), 4)))
    assert torch.equal(n, torch.zeros(7, D))


def test_the_mean_is_remembered_between_batches():
    """The second time, a lone sample differs from its class's running mean and has a direction."""
    p, h = perturbation("vt:momentum=0.9", classes=CLASSES), Random(0, "p").normal(2, 1, D)
    replay, y = Batch(features=h[0]), torch.tensor([3])
    p.direction(replay, Batch(features=h[0], y=y))
    n = p.direction(replay, Batch(features=h[1], y=y))
    torch.testing.assert_close(n, 0.9 * (h[1] - h[0]))


def test_state_before_the_first_batch():
    p = perturbation("vt", classes=CLASSES)
    fresh = p.state_dict()
    first = [p.direction(Batch(features=b.features), b) for b in batches(3)]
    p.load_state_dict(fresh)
    again = [p.direction(Batch(features=b.features), b) for b in batches(3)]
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))


def test_the_means_are_no_function_of_the_graph():
    p = perturbation("vt", classes=CLASSES)
    h = torch.randn(4, D, requires_grad=True)
    p(Batch(features=h), Batch(features=h, y=torch.tensor([4, 4, 5, 5])))
    assert not p.means.requires_grad


@pytest.mark.parametrize("before", [0, 3])
def test_means_grow_with_the_classes(before):
    """A perturbation that grows on the way equals one that knew all classes from the beginning."""
    grown, wide = perturbation("vt", classes=4), perturbation("vt", classes=7)
    for b in batches(before):
        grown.direction(Batch(features=b.features), b)
        wide.direction(Batch(features=b.features), b)
    grown.grow(7)
    for b in batches(6)[before:]:
        b = b.replace(y=b.y + 3)
        n = grown.direction(Batch(features=b.features), b)
        assert torch.equal(n, wide.direction(Batch(features=b.features), b))
    assert torch.equal(grown.means, wide.means)
    assert grown.state_dict()["batches"].equal(wide.state_dict()["batches"])


def test_a_checkpoint_that_was_read_to_another_device_goes_on_where_the_features_are():
    """As `torch.load(..., map_location="cpu")` does it; the meta device stands for a GPU."""
    h, y = torch.randn(4, 3), torch.arange(4)
    first, second = (perturbation("vt", classes=5) for _ in range(2))
    first(Batch(features=h), Batch(features=h, y=y))
    second.load_state_dict(first.state_dict())
    there = h.to("meta")
    assert second(Batch(features=there), Batch(features=there, y=y.to("meta"))).device.type == "meta"
