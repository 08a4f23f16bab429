"""WAP against a copied network, plain SGD and boolean subsets."""

import copy
import signal

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call

from moca import sphere
from moca.models import Model
from moca.models.auxiliary import auxiliary_encode
from moca.models.batch_norm.foreign import keep_batches_apart
from moca.random import Random
from moca.settings import heads
from tests.perturb.helpers import OLD, ROWS, make, moved, network, scene


def naive(model, replay, new, old, *, steps=1, step=1.0, radius=None, rows="old", draw=None):
    """The direction by a deep copy of the network, trained by torch's SGD on the old rows picked by a mask."""
    proxy = copy.deepcopy(model)
    proxy.requires_grad_(True)
    start = [p.detach().clone() for p in proxy.encoder.parameters()]
    optimiser = torch.optim.SGD(proxy.encoder.parameters(), lr=step)
    for _ in range(steps):
        if draw is None:
            labels = torch.stack([new.y[i % len(new.y)] for i in range(len(replay.x))])
        else:
            labels = new.y[draw.below(torch.full((len(replay.x),), len(new.y)))]
        chosen = old if rows == "old" else torch.ones_like(old)
        optimiser.zero_grad()
        F.cross_entropy(proxy.classify(proxy.encode(replay.x[chosen])), labels[chosen]).backward()
        optimiser.step()
        if radius is not None:
            delta = torch.cat([(p - s).flatten() for p, s in zip(proxy.encoder.parameters(), start, strict=True)])
            if delta.norm() > radius:
                with torch.no_grad():
                    for p, s in zip(proxy.encoder.parameters(), start, strict=True):
                        p.copy_(s + (p - s) * radius / delta.norm())
    with torch.no_grad():
        return proxy.encode(replay.x)


def mask(*rows):
    old = torch.zeros(ROWS, dtype=torch.bool)
    old[list(rows)] = True
    return old


class Exact(Model):
    """A model whose features stay in float64, where steps of 1 do not blow up rounding."""

    def encode(self, x, tensors=None, after_stage=None):
        return functional_call(self.encoder, tensors or {}, (x,))


def check(spec, model, old, new_rows=ROWS, close=1e-10, **options):
    replay, new = scene(model, ROWS, new_rows)
    model = Exact(model.encoder, model.head).double().train(model.training)
    replay = replay.replace(old=old, x=replay.x.double(), features=replay.features.detach().double().requires_grad_())
    f = make(spec, model, seed=3)(replay, new)
    n = naive(model, replay, new, old, **options)
    assert (sphere.angle(n, replay.features)[old] > 1e-3).all()
    torch.testing.assert_close(f, moved(replay.features, n, old), rtol=close, atol=close)


ANY_COUNT = [
    mask(3),
    mask(0, 5),
    OLD,
    mask(1, 2, 4),
    mask(0, 1, 4, 6),
    mask(*range(6)),
    mask(*range(7)),
    mask(*range(8)),
]


@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("old", ANY_COUNT, ids=lambda m: f"{int(m.sum())}_old")
def test_without_batchnorm_for_any_number_of_old_rows(old, steps):
    check(f"wap:steps={steps}", network("mlp"), old, steps=steps)


@pytest.mark.parametrize(
    ("encoder", "steps"), [("convnet", 1), ("convnet", 2), ("convnet", 3), ("resnet18", 1), ("resnet18", 2)]
)
@pytest.mark.parametrize("old", ANY_COUNT, ids=lambda m: f"{int(m.sum())}_old")
def test_with_batchnorm_for_any_number_of_old_rows(old, encoder, steps):
    if encoder == "resnet18" and old.sum() == 1:
        # Its last maps have one pixel: torch refuses BatchNorm of one value.
        replay, new = scene(network(encoder))
        f = make(f"wap:steps={steps}", network(encoder))(replay.replace(old=old), new)
        assert f.isfinite().all()
        return
    # Two steps through twenty layers of BatchNorm of two samples magnify even the rounding of float64, to
    # 2e-8 on some processors.
    close = 1e-7 if encoder == "resnet18" and steps > 1 else 1e-10
    check(f"wap:steps={steps},step_size=2", network(encoder), old, close=close, steps=steps, step=0.2)


def others_encoder():
    """BatchNorm of torch's own kinds, before and after images become vectors."""
    return nn.Sequential(
        nn.Conv2d(1, 5, 3, bias=False), nn.BatchNorm2d(5, eps=1e-3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
        nn.Linear(20, 12), nn.BatchNorm1d(12, momentum=None), nn.ReLU(), nn.Linear(12, 10),
    )  # fmt: skip


@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize("old", ANY_COUNT[1:], ids=lambda m: f"{int(m.sum())}_old")
def test_with_an_encoder_of_others_for_any_number_of_old_rows(old, steps):
    torch.manual_seed(0)
    model = Model(keep_batches_apart(others_encoder()), network("mlp").head)
    before = copy.deepcopy(model.state_dict())
    check(f"wap:steps={steps},step_size=2", copy.deepcopy(model), old, steps=steps, step=0.2)
    replay, new = scene(model)
    model.load_state_dict(before)
    make(f"wap:steps={steps}", model)(replay.replace(old=old), new)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize("old", ANY_COUNT, ids=lambda m: f"{int(m.sum())}_old")
def test_with_batchnorm_in_evaluation_for_any_number_of_old_rows(old):
    model = network("convnet")
    for _ in range(5):
        model.encode(scene(model)[0].x)
    check("wap:step_size=2", model.eval(), old, step=0.2)


def test_linear_head():
    check("wap", network("mlp", heads.Linear()), OLD)


def test_all_rows():
    check("wap:rows=all", network("mlp"), OLD, rows="all")
    check("wap:rows=all", network("convnet"), mask(1, 2, 4), rows="all")


@pytest.mark.parametrize("encoder", ["mlp", "convnet", "resnet18"])
@pytest.mark.parametrize("old", [mask(3), OLD, mask(*range(7))], ids=lambda m: f"{int(m.sum())}_old")
def test_rows_that_are_not_old_leave_the_adversarial_weights_alone(encoder, old):
    model = network(encoder)
    replay, new = scene(model)
    other, labels = replay.x.clone(), new.y.clone()
    other[~old] = 100 * torch.randn_like(other[~old])
    labels[~old] = 0

    def weights(spec, x, y):
        return make(spec, model)._adversarial_weights(replay.replace(x=x, old=old), y)

    first, second = (weights("wap:steps=2", x, y) for x, y in ((replay.x, new.y), (other, labels)))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert all(w.isfinite().all() for w in first.values())
    third, fourth = (weights("wap:rows=all", x, y) for x, y in ((replay.x, new.y), (other, labels)))
    assert not all(torch.allclose(third[name], fourth[name], atol=1e-3) for name in third)


def test_a_signal_stops_between_the_inner_steps(monkeypatch):
    model = network("convnet")
    replay, new = scene(model)
    calls = []

    def encode(*args):
        calls.append(args)
        if len(calls) == 3:
            signal.raise_signal(signal.SIGINT)
        return Model.encode(model, *args)

    monkeypatch.setattr(model, "encode", encode)
    with pytest.raises(KeyboardInterrupt):
        make("wap:steps=100", model)(replay, new)
    assert len(calls) == 3
    monkeypatch.undo()
    # BatchNorm was told nothing that still holds: it keeps statistics again.
    norm, before = model.encoder.stages[0][1], model.encoder.stages[0][1].running_mean.clone()
    model.encode(replay.x[:3])
    assert not torch.equal(norm.running_mean, before)


def test_the_step_is_relative_to_the_learning_rate_or_absolute():
    check("wap:step_size=5", network("mlp"), OLD, step=0.5)
    check("wap:step_size=0.7,relative=false", network("mlp"), OLD, step=0.7)


def test_the_rate_of_an_optimiser_follows_its_schedule():
    model = network("mlp")
    replay, new = scene(model)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimiser, 0.1)
    p = make("wap", model, lr=optimiser)
    for rate in (0.1, 0.01):
        torch.testing.assert_close(p(replay, new), make("wap", model, lr=rate)(replay, new))
        optimiser.step()
        schedule.step()


def test_the_rate_as_a_tensor_follows_its_schedule():
    model = network("mlp")
    replay, new = scene(model)
    lr = torch.tensor(0.1)
    p = make("wap", model, lr=lr)
    results = []
    for rate in (0.1, 0.01, 0.001):
        lr.fill_(rate)
        results.append(p(replay, new))
        torch.testing.assert_close(results[-1], make("wap", model, lr=rate)(replay, new))
    angles = [sphere.angle(f, replay.features)[OLD].mean() for f in results]
    # As the step vanishes so does the perturbation: n goes to the feature itself.
    assert angles[0] > angles[1] > angles[2] > 0
    assert angles[2] < 0.05 * angles[0]


@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("radius", [0.05, 0.3, 100.0])
def test_radius(radius, steps):
    check(f"wap:radius={radius},steps={steps}", network("mlp"), OLD, radius=radius, steps=steps)


def test_a_large_radius_binds_nothing_and_a_small_one_does():
    model = network("mlp")
    replay, new = scene(model)
    free, wide, tight = (make(s, model)(replay, new) for s in ("wap", "wap:radius=1000", "wap:radius=0.01"))
    torch.testing.assert_close(wide, free)
    angles = [sphere.angle(f, replay.features)[OLD] for f in (tight, free)]
    assert (angles[0] < 0.5 * angles[1]).all()


@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("new_rows", [3, 8, 11])
def test_random_labels_are_drawn_from_the_new_ones_afresh_for_every_step(steps, new_rows):
    draw = Random(3, "perturb")
    check(f"wap:labels=random,steps={steps}", network("mlp"), OLD, new_rows, steps=steps, draw=draw)


@pytest.mark.parametrize("new_rows", [1, 3, 11])
def test_labels_pair_with_rows_by_position(new_rows):
    check("wap", network("mlp"), OLD, new_rows)


def test_old_samples_come_nearer_to_the_new_labels():
    """What the inner step is for: the adversarial features raise the confidence in the new class."""
    model = network("mlp")
    replay, new = scene(model)
    n = make("wap:step_size=1", model).direction(replay, new)
    before, after = (F.cross_entropy(model.classify(h)[OLD], new.y[OLD]) for h in (replay.features, n))
    assert after < before


def test_the_classifier_stays_for_two_steps():
    """Were the classifier moved too, the second step would differ."""
    model = network("mlp")
    replay, new = scene(model)
    proxy = copy.deepcopy(model)
    optimiser = torch.optim.SGD(proxy.parameters(), lr=1.0)
    for _ in range(2):
        optimiser.zero_grad()
        F.cross_entropy(proxy(replay.x[OLD]), new.y[OLD]).backward()
        optimiser.step()
    moved_too = proxy.encode(replay.x).detach()
    assert not torch.allclose(make("wap:steps=2", model).direction(replay, new), moved_too, atol=1e-2)


@pytest.mark.parametrize("bf16", [False, True])
@pytest.mark.parametrize("steps", [1, 2])
def test_frozen_weights_stay_as_when_only_adapters_are_trained(steps, bf16):
    model = network("mlp")
    model.bf16 = bf16
    frozen = [name for name, _ in model.encoder.named_parameters()][:2]
    for name, p in model.encoder.named_parameters():
        p.requires_grad_(name not in frozen)
    replay, new = scene(model)
    perturb = make(f"wap:steps={steps},step_size=1,relative=false,rows=all", model)
    weights = perturb._adversarial_weights(replay, new.y)
    assert weights.keys().isdisjoint(frozen)
    proxy = copy.deepcopy(model)
    optimiser = torch.optim.SGD([p for p in proxy.encoder.parameters() if p.requires_grad], lr=1.0)
    for _ in range(steps):
        optimiser.zero_grad()
        F.cross_entropy(proxy(replay.x), new.y).backward()
        optimiser.step()
    n, close = perturb.direction(replay, new), 2e-2 if bf16 else 1e-5
    torch.testing.assert_close(n, proxy.encode(replay.x).detach(), rtol=close, atol=close)
    assert not any(p.requires_grad for name, p in model.encoder.named_parameters() if name in frozen)


def test_frozen_gradients_of_the_caller_do_not_matter():
    """The surrounding code may have gradients off, or be inside its own graph."""
    model = network("mlp")
    replay, new = scene(model)
    outside = make("wap", model)(replay, new)
    with torch.no_grad():
        inside = make("wap", model)(replay, new)
    assert torch.equal(inside, outside) and not inside.requires_grad


@pytest.mark.parametrize("encoder", ["mlp", "convnet", "resnet18"])
def test_without_old_rows_no_step_is_taken(encoder):
    model = network(encoder)
    replay, new = scene(model)
    n = make("wap:steps=2", model).direction(replay.replace(old=mask()), new)
    torch.testing.assert_close(n, replay.features.detach())


def test_in_bfloat16_the_weights_keep_their_precision_from_step_to_step():
    model = network("convnet")
    model.bf16 = True
    replay, new = scene(model)
    weights = {name: p.detach() for name, p in model.encoder.named_parameters()}
    for _ in range(2):
        leaves = {name: w.clone().requires_grad_() for name, w in weights.items()}
        loss = F.cross_entropy(model.classify(auxiliary_encode(model, replay.x, leaves)), new.y)
        gradients = torch.autograd.grad(loss, list(leaves.values()))
        weights = {name: w - 0.05 * g for (name, w), g in zip(weights.items(), gradients, strict=True)}
    n = make("wap:steps=2,step_size=0.05,relative=false,rows=all", model).direction(replay, new)
    torch.testing.assert_close(n.detach(), auxiliary_encode(model, replay.x, weights).detach(), rtol=1e-2, atol=1e-2)
