"""The small encoders, written out."""

import pytest
import torch
import torch.nn.functional as F

from moca.models.encoders.convnet import ConvNet
from moca.models.encoders.mlp import MLP
from moca.random import Random


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_mlp_against_a_plain_restatement(depth):
    encoder = MLP((2, 3, 4), width=7, depth=depth, features=5)
    x = Random(0, "p").normal(6, 2, 3, 4)
    w, expected = encoder.state_dict(), x.reshape(6, 24)
    for i in range(depth):
        expected = (expected @ w[f"stages.{i}.weight"].T + w[f"stages.{i}.bias"]).clamp_min(0)
    expected = expected @ w["output.weight"].T + w["output.bias"]
    assert encoder.features == 5
    torch.testing.assert_close(encoder(x), expected)


@pytest.mark.parametrize("side", [8, 6, 9])
def test_convnet_against_a_plain_restatement(side):
    encoder = ConvNet((1, side, side), width=3, features=5)
    x = Random(0, "p").normal(6, 1, side, side)
    w, expected = {k: v.clone() for k, v in encoder.state_dict().items()}, x
    for i in range(2):
        expected = F.conv2d(expected, w[f"stages.{i}.0.weight"], padding=1)
        mean, var = expected.mean((0, 2, 3), keepdim=True), expected.var((0, 2, 3), unbiased=False, keepdim=True)
        expected = ((expected - mean) / (var + 1e-5).sqrt()).clamp_min(0)
        # An odd side keeps its last column: the padding of a maximum of non-negative numbers is zero.
        expected = F.pad(expected, (0, expected.shape[3] % 2, 0, expected.shape[2] % 2))
        expected = expected.unfold(2, 2, 2).unfold(3, 2, 2).amax((4, 5))
    expected = expected.flatten(1) @ w["output.weight"].T + w["output.bias"]
    assert encoder.features == 5
    torch.testing.assert_close(encoder(x), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("make", [MLP, ConvNet])
def test_after_stage_is_used_at_every_stage(make):
    encoder, seen = make((1, 8, 8)), []
    encoder(torch.rand(2, 1, 8, 8), after_stage=lambda x: seen.append(x) or x)
    assert len(seen) == 2
    silent = encoder(torch.rand(2, 1, 8, 8), after_stage=torch.zeros_like)
    assert torch.equal(silent[0], silent[1])
