"""DER: labels of new data, stored logits of replayed ones."""

import pytest
import torch

from moca import MocaError
from moca.learners.der import DER
from moca.settings import Run, validate


def test_two_terms(attached, model, make_batch, slow):
    new, dark = make_batch([2, 3, 3]), make_batch([0, 1, 2, 2], seed=1, stored=True)
    losses = attached(DER(alpha=0.7), (0, 1), (2, 3)).losses(new, dark)
    assert set(losses) == {"new", "logits"}
    assert losses["new"].item() == pytest.approx(slow.cross_entropy(new.features, new.y), rel=1e-5)
    now, then = model.classify(dark.features).flatten().tolist(), dark.logits.flatten().tolist()
    squares = [(a - b) ** 2 for a, b in zip(now, then, strict=True)]
    assert len(squares) == 4 * 6, "over the batch and all classes"
    assert losses["logits"].item() == pytest.approx(0.7 * sum(squares) / len(squares), rel=1e-5)


def test_labels_of_replayed_samples_do_not_matter(attached, make_batch):
    one, new = attached(DER(), (0, 1), (2, 3)), make_batch([2, 3])
    losses = [one.losses(new, make_batch(labels, seed=1, stored=True)) for labels in ([0, 1, 2], [5, 5, 5])]
    assert torch.equal(losses[0]["logits"], losses[1]["logits"])


def test_logits_that_stay_pull_at_nothing(attached, model, make_batch):
    dark = make_batch([0, 1], seed=1)
    loss = attached(DER(), (0, 1)).losses(make_batch([0]), dark.replace(logits=dark.logits.detach()))["logits"]
    (slope,) = torch.autograd.grad(loss, dark.features)
    assert loss.item() == 0 and not slope.any()


def test_the_first_step_has_nothing_stored(attached, make_batch):
    assert list(attached(DER(), (0, 1)).losses(make_batch([0, 1]))) == ["new"]
    assert (DER.keeps, DER.draws) == (("logits",), 1)


def test_a_perturbation_is_refused_with_the_reason():
    with pytest.raises(MocaError, match="nothing is learnt from the labels of replayed samples"):
        validate(Run, {"learner": "der", "perturb": "wap"})
