"""FGSM on features, against the closed form of the gradient."""

import pytest
import torch

from moca.settings import heads
from tests.perturb.helpers import OLD, label_gradient, make, moved, network, scene


def test_linear_head_against_the_closed_form():
    model = network(head=heads.Linear())
    replay, new = scene(model)
    n = label_gradient(model, replay).sign()
    torch.testing.assert_close(make("fgsm", model)(replay, new), moved(replay.features, n, OLD))


def test_cosine_head_against_finite_differences():
    model = network()
    replay, _ = scene(model)
    model.double()

    def loss(h, y):
        cosines = torch.stack([h @ w / (h.norm() * w.norm()) for w in model.head.weight])
        logits = model.head.scale * cosines
        return (logits.logsumexp(0) - logits[y]).item()

    n = make("fgsm", model).direction(replay.replace(features=replay.features.detach().double()), replay)
    for i, h in enumerate(replay.features.detach().double()):
        for j in range(len(h)):
            step = torch.zeros_like(h)
            step[j] = 1e-5 * h.norm()
            slope = loss(h + step, replay.y[i]) - loss(h - step, replay.y[i])
            assert slope * n[i, j].item() > 0


def test_the_loss_of_moved_rows_rises():
    model = network()
    replay, new = scene(model)
    f = make("fgsm:lambda=0.05", model)(replay, new)
    before, after = (
        torch.nn.functional.cross_entropy(model.classify(h), replay.y, reduction="none") for h in (replay.features, f)
    )
    assert (after > before)[OLD].all()
    assert torch.equal(after[~OLD], before[~OLD])


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_every_row_counts_for_itself(scale):
    """The direction of a row does not depend on the rows beside it."""
    model = network()
    replay, _ = scene(model)
    n = make("fgsm", model).direction(replay, replay)
    h = replay.features.detach().clone()
    h[1:] *= scale
    assert torch.equal(make("fgsm", model).direction(replay.replace(features=h), replay)[0], n[0])


def test_of_several_outputs_a_class_the_first_is_the_label():
    """As with rotations as classes of their own."""
    model = network(head=heads.Linear())
    replay, _ = scene(model)
    one = make("fgsm", model).direction(replay.replace(y=2 * (replay.y // 2)), replay)
    model.outputs = 2
    two = make("fgsm", model).direction(replay.replace(y=replay.y // 2), replay)
    assert torch.equal(one, two)
