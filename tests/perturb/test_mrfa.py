"""MRFA's step: the gradient itself, at the feature or after every stage."""

import copy

import pytest
import torch
import torch.nn.functional as F

from moca import Learner, MocaError
from moca.settings import Run, heads, validate
from tests.perturb.helpers import OLD, label_gradient, make, moved, network, scene


def test_linear_head_against_the_closed_form():
    model = network(head=heads.Linear())
    replay, new = scene(model)
    n = label_gradient(model, replay)
    torch.testing.assert_close(make("mrfa", model)(replay, new), moved(replay.features, n, OLD))


@pytest.mark.parametrize("spec", ["mrfa:lambda=0.01", "mrfa:lambda=0.01,site=stages,step=0.01"])
def test_the_loss_of_moved_rows_rises(spec):
    model = network("mlp")
    replay, new = scene(model)
    f = make(spec, model)(replay, new)
    before, after = (F.cross_entropy(model.classify(h), replay.y, reduction="none") for h in (replay.features, f))
    assert (after > before)[OLD].all()
    assert torch.equal(after[~OLD], before[~OLD])


def test_it_is_steeper_than_fgsm_and_than_chance():
    """Of all steps of one length it raises the loss most, to first order."""
    model = network()
    replay, new = scene(model)
    rise = {}
    for name in ("mrfa", "fgsm", "gaussian"):
        f = make(f"{name}:fixed_angle=0.5", model)(replay, new)
        rise[name] = (F.cross_entropy(model.classify(f), replay.y, reduction="none")
                      - F.cross_entropy(model.classify(replay.features), replay.y, reduction="none"))[OLD]  # fmt: skip
    assert (rise["mrfa"] > rise["fgsm"]).all()
    assert (rise["mrfa"] > rise["gaussian"].abs()).all()


def test_steps_after_every_stage_against_hooks():
    model = network("convnet").train()
    replay, new = scene(model)
    twin = copy.deepcopy(model)
    seen = []
    x = replay.x
    for number, stage in enumerate(twin.encoder.stages):
        x = F.max_pool2d(stage(x), 2, ceil_mode=True)
        x.retain_grad()
        seen.append((number, x))
    h = twin.encoder.output(x.flatten(1))
    F.cross_entropy(twin.classify(h), replay.y, reduction="sum").backward()
    x = replay.x
    with torch.no_grad():
        for (_, z), stage in zip(seen, twin.encoder.stages, strict=True):
            x = F.max_pool2d(stage(x), 2, ceil_mode=True)
            rows = []
            for row, slope in zip(x, z.grad, strict=True):
                rows.append(row + 0.3 * row.norm() * slope / slope.norm() if slope.any() else row)
            x = torch.stack(rows)
        expected = twin.encoder.output(x.flatten(1)) - h
    before = {name: value.clone() for name, value in model.state_dict().items()}
    n = make("mrfa:site=stages,step=0.3", model).direction(replay, new)
    torch.testing.assert_close(n, expected.detach(), rtol=1e-4, atol=1e-5)
    assert all(value.equal(before[name]) for name, value in model.state_dict().items()), "it leaves no trace"
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize("site", ["feature", "stages"])
def test_where_the_loss_is_flat_nothing_moves(site):
    model = network(head=heads.Linear())
    torch.nn.init.zeros_(model.head.weight)
    replay, new = scene(model)
    assert torch.equal(make(f"mrfa:site={site}", model).direction(replay, new), torch.zeros(8, 10))


def test_prototypes_have_no_stages():
    class Prototypes(Learner):
        replays_images = False

    assert validate(Run, {"learner": Prototypes, "perturb": "mrfa"}).perturb.name == "mrfa"
    with pytest.raises(MocaError, match="inside the encoder"):
        validate(Run, {"learner": Prototypes, "perturb": "mrfa:site=stages"})
