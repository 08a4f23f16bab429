"""DER++: labels of new data, stored logits of one draw, labels of another."""

import pytest
import torch

from moca.learners.derpp import DERpp
from moca.parts import PERTURBATIONS


@pytest.fixture
def learner(attached):
    return lambda **given: attached(DERpp(alpha=0.3, beta=0.7), (0, 1), (2, 3), **given)


def mean_squared_error(model, batch):
    """Over the batch and all logits."""
    now, then = model.classify(batch.features).tolist(), batch.logits.tolist()
    squares = [(a - b) ** 2 for rows in zip(now, then, strict=True) for a, b in zip(*rows, strict=True)]
    assert len(squares) == 6 * len(batch.y)
    return sum(squares) / len(squares)


def batches(make_batch, **options):
    return (
        make_batch([2, 3, 3]),
        make_batch([0, 1, 2, 2], seed=1, stored=True, **options),
        make_batch([1, 1, 3, 0], seed=2, stored=True, **options),
    )


def test_three_terms(learner, model, make_batch, slow):
    new, dark, labelled = batches(make_batch)
    losses = learner().losses(new, dark, labelled)
    assert set(losses) == {"new", "logits", "replay"}
    assert losses["new"].item() == pytest.approx(slow.cross_entropy(new.features, new.y), rel=1e-5)
    assert losses["logits"].item() == pytest.approx(0.3 * mean_squared_error(model, dark), rel=1e-5)
    labels = slow.cross_entropy(labelled.features, labelled.y)
    assert losses["replay"].item() == pytest.approx(0.7 * labels, rel=1e-5)


def test_only_the_labelled_draw_is_perturbed(learner, model, make_batch, slow, recorder):
    old = [True, True, False, True]
    new, dark, labelled = batches(make_batch, old=old)
    losses = learner(perturbation=recorder).losses(new, dark, labelled)
    assert [call[0] for call in recorder.calls] == [labelled]
    moved = labelled.features.detach().clone()
    moved[[0, 1, 3]] += 1
    assert losses["logits"].item() == pytest.approx(0.3 * mean_squared_error(model, dark), rel=1e-5)
    assert losses["replay"].item() == pytest.approx(0.7 * slow.cross_entropy(moved, labelled.y), rel=1e-5)


def test_every_term_reaches_the_features_of_its_own_batch_alone(learner, make_batch):
    given = dict(zip(("new", "logits", "replay"), batches(make_batch), strict=True))
    losses = learner().losses(*given.values())
    for term, loss in losses.items():
        features = [batch.features for batch in given.values()]
        gradients = torch.autograd.grad(loss, features, retain_graph=True, allow_unused=True)
        assert [g is not None for g in gradients] == [name == term for name in given]


def test_with_an_empty_memory_only_new_data_count(learner, make_batch, slow):
    new = make_batch([2, 3, 3])
    losses = learner().losses(new)
    assert list(losses) == ["new"]
    assert losses["new"].item() == pytest.approx(slow.cross_entropy(new.features, new.y), rel=1e-5)


def test_asks_for_two_draws_and_for_logits():
    assert DERpp.draws == 2
    assert DERpp.keeps == ("logits",)


@pytest.mark.parametrize("name", PERTURBATIONS.built_in)
def test_the_official_passes_are_known_with_wap(name):
    passes = DERpp().official_passes(PERTURBATIONS.find(name)())
    if name == "wap":
        assert passes == ("n1nb", "n1nbb", "n1nbb", "n")
    else:
        assert passes is None


def test_the_draws_shares_of_the_running_statistics():
    """The table has two digits: 0.18 of the first draw, 0.46 of the second."""
    running = {"1": 0.0, "b": 0.0}
    for _ in range(200):
        for role in DERpp().official_passes(PERTURBATIONS.find("wap")()).later:
            running = {draw: 0.9 * share + 0.1 * (role == draw) for draw, share in running.items()}
    assert running["1"] == pytest.approx(0.18, abs=0.005)
    assert running["b"] == pytest.approx(0.46, abs=0.005)
