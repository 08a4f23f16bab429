"""Encoder and head together; initial weights are a function of the seed alone."""

import pytest
import torch
from torch import nn

from moca.models import MLP, ConvNet, Model, ResNet18, build_model
from moca.settings import models

SMALL = [models.ResNet18(width=2), models.ConvNet(width=2, features=4), models.MLP(width=8, features=4)]
every_encoder = pytest.mark.parametrize("encoder", SMALL, ids=lambda e: e.name)
SHAPE = (1, 8, 8)


def same(a: Model, b: Model) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a.state_dict().values(), b.state_dict().values(), strict=True))


@every_encoder
@pytest.mark.parametrize("head", [models.Cosine(), models.Linear()], ids=lambda h: h.name)
def test_weights_depend_on_the_seed_alone(encoder, head):
    torch.manual_seed(1)
    first = build_model(encoder, head, SHAPE, 3, seed=5)
    torch.manual_seed(2)
    assert same(build_model(encoder, head, SHAPE, 3, seed=5), first)
    other = build_model(encoder, head, SHAPE, 3, seed=6)
    assert not torch.equal(other.head.weight, first.head.weight)
    assert not torch.equal(next(other.encoder.parameters()), next(first.encoder.parameters()))


@every_encoder
def test_the_global_state_is_untouched(encoder, monkeypatch):
    seeded = []
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeded.append)
    torch.manual_seed(3)
    seeded.clear()
    state = torch.random.get_rng_state()
    build_model(encoder, models.Cosine(), SHAPE, 3)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert not seeded, "the generators of other devices were seeded too"


@every_encoder
def test_forward_is_classify_after_encode(encoder):
    model = build_model(encoder, models.Cosine(), SHAPE, 3)
    x = torch.rand(4, *SHAPE)
    h = model.encode(x)
    assert h.shape == (4, model.encoder.features) and h.dtype == torch.float32
    assert torch.equal(model.classify(h), model.head(h))
    torch.testing.assert_close(model(x), model.classify(model.encode(x)))


def test_features_are_float32_whatever_the_encoder_s_type():
    model = build_model(models.MLP(), models.Cosine(), SHAPE, 3)
    model.encoder.bfloat16()
    assert model.encode(torch.rand(2, *SHAPE).bfloat16()).dtype == torch.float32


@pytest.mark.parametrize(
    ("settings", "cls"), [(models.ResNet18(width=2), ResNet18), (models.ConvNet(), ConvNet), (models.MLP(), MLP)]
)
def test_settings_choose_the_encoder(settings, cls):
    assert isinstance(build_model(settings, models.Linear(), SHAPE, 3).encoder, cls)


def test_options_reach_the_encoder():
    model = build_model(models.MLP(width=11, depth=3, features=2), models.Linear(), SHAPE, 3)
    assert [tuple(p.shape) for p in model.encoder.parameters() if p.dim() == 2] == [
        (11, 64),
        (11, 11),
        (11, 11),
        (2, 11),
    ]
    assert model.head.weight.shape == (3, 2)
    assert build_model(models.ResNet18(width=2, pool=2), models.Linear(), (1, 32, 32), 3).encoder.features == 64


def test_any_modules_will_do():
    model = Model(nn.Flatten(), nn.Linear(64, 3))
    x = torch.rand(2, *SHAPE)
    assert torch.equal(model(x), model.head(x.flatten(1)))
