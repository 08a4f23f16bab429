"""DOA: dropout of features, or after every stage of the encoder, against hooks and plain restatements."""

import copy

import pytest
import torch
import torch.nn.functional as F
from scipy import stats

from moca import perturbation, sphere
from moca.batch import Batch
from moca.random import Random
from tests.perturb.helpers import OLD, make, moved, network, scene


def masks(rate, *shapes, seed=3):
    """What survives, drawn in the order of the shapes."""
    random = Random(seed, "perturb")
    return [(random.uniform(*shape) >= rate).float() for shape in shapes]


@pytest.mark.parametrize("rate", [0.0, 0.2, 0.5, 0.9])
def test_old_against_a_loop(rate):
    replay, new = scene(network())
    f = make(f"doa_old:rate={rate}", seed=3)(replay, new)
    (mask,) = masks(rate, replay.features.shape)
    torch.testing.assert_close(f, moved(replay.features, (replay.features * mask).detach(), OLD))
    if rate == 0:
        torch.testing.assert_close(f, replay.features)


@pytest.mark.parametrize(("rows", "new_rows"), [(8, 8), (8, 3), (5, 8)])
def test_new_against_a_loop(rows, new_rows):
    replay, new = scene(network(), rows, new_rows)
    f = make("doa_new", seed=3)(replay, new)
    (mask,) = masks(0.5, new.features.shape)
    dropped = (new.features * mask).detach()
    n = torch.stack([dropped[i % new_rows] for i in range(rows)])
    torch.testing.assert_close(f, moved(replay.features, n, replay.old))


@pytest.mark.parametrize("rate", [0.2, 0.5])
def test_entries_are_dropped_at_the_rate_and_the_others_keep_their_proportions(rate):
    h = Random(1, "p").normal(200, 50).abs() + 0.1
    n = perturbation(f"doa_old:rate={rate}").direction(Batch(features=h), Batch())
    dropped = int((n == 0).sum())
    assert stats.binomtest(dropped, h.numel(), rate).pvalue > 1e-3
    ratio = (n / h)[n != 0]
    torch.testing.assert_close(ratio, ratio[0].expand_as(ratio))
    assert ratio[0] > 0


def test_old_rotates_less_than_new():
    """A non-negative feature with half of it missing is still near itself: about 45 degrees off."""
    h, h_new = Random(1, "p").normal(2, 500, 512).abs()
    replay, new = Batch(features=h), Batch(features=h_new)
    phi = sphere.angle(perturbation("doa_old").direction(replay, new), h).rad2deg()
    assert phi.mean().item() == pytest.approx(45, abs=1)
    old, new = (sphere.angle(perturbation(s)(replay, new), h).mean() for s in ("doa_old", "doa_new"))
    assert old < new


def plain_mlp(model, x, masks, rate):
    """The MLP written out, with dropout after every hidden layer."""
    w = dict(model.encoder.named_parameters())
    x = x.flatten(1)
    for i, mask in enumerate(masks):
        x = F.relu(x @ w[f"stages.{i}.weight"].T + w[f"stages.{i}.bias"]) * mask / (1 - rate)
    return x @ w["output.weight"].T + w["output.bias"]


def plain_convnet(model, x, masks, rate):
    """The convnet written out, with dropout after each halving of the side."""
    w = dict(model.encoder.named_parameters())
    for i, mask in enumerate(masks):
        x = F.conv2d(x, w[f"stages.{i}.0.weight"], padding=1)
        x = F.batch_norm(x, None, None, w[f"stages.{i}.1.weight"], w[f"stages.{i}.1.bias"], training=True)
        x = F.max_pool2d(F.relu(x), 2, ceil_mode=True) * mask / (1 - rate)
    return x.flatten(1) @ w["output.weight"].T + w["output.bias"]


def hooked_resnet(model, x, masks, rate):
    """A copy whose stages drop their outputs."""
    encoder = copy.deepcopy(model.encoder)
    for stage, mask in zip(encoder.stages, masks, strict=True):
        stage.register_forward_hook(lambda module, inputs, output, mask=mask: output * mask / (1 - rate))
    return encoder(x)


@pytest.mark.parametrize("variant", ["doa_old", "doa_new"])
@pytest.mark.parametrize(
    ("encoder", "twin", "shapes"),
    [
        ("mlp", plain_mlp, [(12,), (12,)]),
        ("convnet", plain_convnet, [(4, 3, 3), (8, 2, 2)]),
        ("resnet18", hooked_resnet, [(2, 6, 6), (4, 3, 3), (8, 2, 2), (16, 1, 1)]),
    ],
)
def test_dropout_after_every_stage(variant, encoder, twin, shapes):
    model = network(encoder)
    replay, new = scene(model, rows=8, new_rows=6)
    f = make(f"{variant}:site=stages,rate=0.3", model, seed=3)(replay, new)
    x = replay.x if variant == "doa_old" else new.x
    with torch.no_grad():
        n = twin(model, x, masks(0.3, *((len(x), *shape) for shape in shapes)), 0.3)
    n = torch.stack([n[i % len(n)] for i in range(8)])
    torch.testing.assert_close(f, moved(replay.features, n, OLD), rtol=1e-4, atol=1e-5)


def test_the_new_pass_does_not_use_given_features():
    """With dropout inside the network, x is encoded again; the features given for new samples play no part."""
    model = network()
    replay, new = scene(model)
    first = make("doa_new:site=stages", model)(replay, new)
    assert torch.equal(make("doa_new:site=stages", model)(replay, Batch(x=new.x)), first)
