"""Weights cast all at once give the numbers of autocast, which casts them one by one."""

import pytest
import torch
from torch.func import functional_call

from moca.models import Model
from moca.models.precision import subtract


@pytest.mark.parametrize("encoder", ["resnet18:width=4", "convnet:width=4", "mlp:width=8"])
@pytest.mark.parametrize("replaced", [False, True])
def test_like_autocast_in_values_and_gradients(build, encoder, replaced):
    model = build(encoder, (3, 8, 8), 4)
    model.bf16 = True
    own = dict(model.encoder.named_parameters())
    given = {name: (0.5 * p).detach().requires_grad_() for name, p in own.items()} if replaced else {}
    leaves = list((own | given).values())
    x = torch.randn(6, 3, 8, 8, generator=torch.Generator().manual_seed(0))

    with torch.autocast("cpu", torch.bfloat16):
        expected = functional_call(model.encoder, given, (x,)).float()
    wanted = torch.autograd.grad(expected.square().sum(), leaves)
    features = model.encode(x, given)
    got = torch.autograd.grad(features.square().sum(), leaves)

    assert features.equal(expected)
    assert all(g.dtype == torch.float32 for g in got)
    assert all(ours.equal(theirs) for ours, theirs in zip(got, wanted, strict=True))
    assert not features.equal(build(encoder, (3, 8, 8), 4).encode(x)), "bfloat16 rounds"


def test_a_step_is_rounded_once_to_the_precision_of_its_use():
    generator = torch.Generator().manual_seed(0)
    weights = {name: torch.randn(50, generator=generator) for name in "abc"}
    steps = {"a": torch.randn(50).bfloat16(), "b": torch.randn(50).bfloat16(), "c": torch.randn(50)}
    like = {"a": steps["a"], "b": weights["b"], "c": weights["c"]}
    moved = subtract(weights, steps, like)
    for name, dtype in {"a": torch.bfloat16, "b": torch.float32, "c": torch.float32}.items():
        assert moved[name].equal((weights[name].double() - steps[name].double()).float().to(dtype))


def test_tied_and_frozen_and_unused_weights():
    first, second = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
    second.weight = first.weight
    frozen, unused = torch.nn.Linear(3, 3).requires_grad_(False), torch.nn.Linear(3, 3)

    class Encoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second, self.frozen, self.unused = first, second, frozen, unused

        def forward(self, x):
            return self.frozen(self.second(self.first(x)))

    model = Model(Encoder(), torch.nn.Linear(3, 2))
    model.bf16 = True
    model.encode(torch.randn(4, 3)).sum().backward()
    assert first.weight.grad.dtype == torch.float32
    assert unused.weight.grad is None, "an optimiser leaves it alone"
    assert frozen.weight.grad is None


def test_passes_of_a_step_share_what_was_rounded(build):
    model = build("convnet:width=4", (3, 8, 8), 4)
    model.bf16 = True
    x = torch.randn(6, 3, 8, 8, generator=torch.Generator().manual_seed(0))

    def gradients():
        return torch.autograd.grad(model.encode(x).square().sum(), list(model.encoder.parameters()))

    expected = gradients()
    with model.one_step():
        assert model.rounded({}) is model.rounded({})
        assert all(ours.equal(theirs) for ours, theirs in zip(gradients(), expected, strict=True))
    assert model.rounded({}) is not model.rounded({}), "weights may have moved since"
