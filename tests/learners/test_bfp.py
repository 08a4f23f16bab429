"""Backward feature projection: a linear map from the new features back to the old ones."""

import math

import pytest
import torch

from moca.learners.bfp import BFP
from moca.learners.derpp import DERpp
from moca.perturb.wap import WAP


@pytest.fixture
def learner(attached):
    return lambda *tasks, **options: attached(BFP(**options), *(tasks or ((0, 1), (2, 3))))


def batches(make_batch):
    old = [True, True, False, True]
    return (
        make_batch([2, 3, 3]),
        make_batch([0, 1, 2, 1], seed=1, stored=True, old=old),
        make_batch([1, 1, 3, 0], seed=2, stored=True, old=old),
    )


def features(*given):
    return torch.cat([batch.features for batch in given]).detach()


def test_the_projection_row_by_row(learner, make_batch):
    """The encoder is the identity here, before as now."""
    one, given = learner(weight=0.7), batches(make_batch)
    total = 0.0
    for h in features(*given).tolist():
        mapped = [sum(a * v for a, v in zip(row, h, strict=True)) for row in one.projector.weight.tolist()]
        total += math.dist(mapped, h) / math.sqrt(3)
    assert one.losses(*given)["projection"].item() == pytest.approx(0.7 * total / 11, rel=1e-5)


def test_features_that_a_linear_map_leads_back_cost_nothing(learner, make_batch):
    """However they turned and stretched."""
    one, given = learner(), batches(make_batch)
    turned = torch.tensor([[0.0, 2.0, 0.0], [-0.5, 0.0, 0.0], [0.3, 0.0, 1.0]])
    with torch.no_grad():
        one.projector.weight.copy_(turned.inverse())
    now = [batch.replace(features=batch.features @ turned.T) for batch in given]
    assert one.losses(*now)["projection"].item() == pytest.approx(0, abs=1e-6)


def test_in_the_first_task_it_is_derpp(attached, learner, make_batch):
    given = batches(make_batch)
    expected = attached(DERpp(), (0, 1)).losses(*given)
    losses = learner((0, 1)).losses(*given)
    assert {k: v.item() for k, v in losses.items()} == {k: v.item() for k, v in expected.items()}


def test_logits_of_old_samples_are_to_be_the_old_network_s(learner, model, make_batch):
    one, given = learner(alpha=1), batches(make_batch)
    one.teacher.head.weight.data += 1
    targets = given[1].logits.clone()
    targets[[0, 1, 3]] = one.teacher(given[1].x)[[0, 1, 3]]
    expected = ((model.classify(given[1].features) - targets) ** 2).mean()
    torch.testing.assert_close(one.losses(*given)["logits"], expected)
    one.targets = "stored"
    expected = ((model.classify(given[1].features) - given[1].logits) ** 2).mean()
    torch.testing.assert_close(one.losses(*given)["logits"], expected)


def test_the_projector_has_a_step_of_its_own(learner, model, make_batch):
    one, given = learner(projector_lr=0.3, projector_momentum=0.5), batches(make_batch)
    optimiser, speed = torch.optim.SGD(model.parameters(), lr=0.1), torch.zeros(3, 3)
    for _ in range(3):
        before = one.projector.weight.detach().clone()
        losses = one.losses(*given)
        (slope,) = torch.autograd.grad(losses["projection"], [one.projector.weight], retain_graph=True)
        speed = 0.5 * speed + slope
        one.update(losses, optimiser)
        torch.testing.assert_close(one.projector.weight.detach(), before - 0.3 * speed)
        given = batches(make_batch)


def test_the_projection_teaches_the_encoder_and_the_old_network_stays(make_trainer):
    trainer = make_trainer(learner="bfp")
    list(trainer.steps())
    trainer.end_task()
    trainer.next_task()
    learner = trainer.learning.learner
    before = {name: value.clone() for name, value in learner.teacher.state_dict().items()}
    seen = []
    original = learner.losses
    learner.losses = lambda *given: seen.append(original(*given)) or seen[-1]
    weight = next(trainer.learning.model.encoder.parameters())
    original_update = learner.update

    def update(losses, optimiser):
        (slope,) = torch.autograd.grad(losses["projection"], [weight], retain_graph=True)
        assert slope.abs().max() > 0
        original_update(losses, optimiser)

    learner.update = update
    list(trainer.steps())
    assert all(value.equal(before[name]) for name, value in learner.teacher.state_dict().items())
    assert not learner.teacher.training


def test_every_task_has_a_new_projector(learner):
    one = learner((0, 1))
    first = one.projector.weight.detach().clone()
    one.velocity += 1
    from tests.learners.conftest import task

    one.begin_task(task(2, 3))
    assert not one.projector.weight.equal(first)
    assert not one.velocity.any()
    assert one.projector.weight.abs().max() <= 1 / math.sqrt(3)


def test_without_replay_new_samples_are_projected(learner, make_batch):
    assert set(learner().losses(make_batch([2, 3]))) == {"new", "projection"}


def test_around_er(learner, make_batch):
    losses = learner(alpha=0, beta=1).losses(*batches(make_batch))
    assert losses["logits"].item() == 0


def test_it_is_not_in_the_official_code():
    assert BFP().official_passes(WAP()) is None
