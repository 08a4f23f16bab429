"""Auxiliary passes equal those of a copied model and leave no trace."""

import copy

import pytest
import torch

from moca import parts
from moca.models import auxiliary_encode, build_model
from moca.settings.choice import choice_of
from moca.settings.heads import Cosine

SHAPE = (1, 8, 8)


@pytest.fixture(params=["resnet18:width=2", "convnet:width=2,features=4", "mlp:width=8"])
def model(request):
    model = build_model(choice_of(parts.ENCODERS, request.param), Cosine(), SHAPE, 3)
    for _ in range(3):
        model.encode(torch.rand(5, *SHAPE))
    return model


@pytest.mark.parametrize("training", [True, False])
def test_equals_encode_of_a_copy_and_leaves_no_trace(model, training):
    model.train(training)
    x = torch.rand(6, *SHAPE)
    before = copy.deepcopy(model)
    got = auxiliary_encode(model, x)
    assert not got.requires_grad
    for name, value in model.state_dict().items():
        assert torch.equal(value, before.state_dict()[name]), name
    assert all(p.grad is None and p.requires_grad for p in model.parameters())
    assert all(m.training == training for m in model.modules())
    assert torch.equal(got, before.encode(x))


def test_other_weights_and_their_gradients(model):
    x = torch.rand(6, *SHAPE)
    other = copy.deepcopy(model)
    with torch.no_grad():
        for p in other.encoder.parameters():
            p.add_(0.1 * torch.randn_like(p))
    weights = {k: p.detach().clone().requires_grad_() for k, p in other.encoder.named_parameters()}
    got = auxiliary_encode(model, x, weights)
    torch.testing.assert_close(got, other.encode(x))
    weight = torch.linspace(-1, 1, got.numel()).view_as(got)
    (got * weight).sum().backward()
    (other.encode(x) * weight).sum().backward()
    for name, p in other.encoder.named_parameters():
        torch.testing.assert_close(weights[name].grad, p.grad, rtol=1e-4, atol=1e-4)
    assert all(p.grad is None for p in model.parameters())


def test_options_go_to_the_encoder(model):
    x = torch.rand(6, *SHAPE)
    silent = auxiliary_encode(model, x, after_stage=torch.zeros_like)
    assert torch.equal(silent, silent[:1].expand_as(silent))
