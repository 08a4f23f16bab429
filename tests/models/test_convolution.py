"""Channels that are added for the GPU's sake change neither what a network says nor what it learns."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from moca import kernels
from moca.models.batch_norm.batches import batches_apart
from moca.models.batch_norm.layer import BatchNorm2d
from moca.models.convolution import Convolution
from moca.models.encoders.resnet18 import BasicBlock
from tests.kernels.devices import kernel_device


@pytest.fixture
def padding(monkeypatch):
    """As on a GPU: kernels can be used, by Triton's interpreter where there is none."""
    if kernel_device() is None:
        pytest.skip("needs triton")
    monkeypatch.setattr(kernels, "usable", lambda x: True)


def test_eights_of_channels_in_training_and_in_bfloat16_alone(padding):
    convolution, x = Convolution(3, 5, 3).bfloat16(), torch.rand(2, 3, 4, 4).bfloat16()
    y = convolution(x)
    assert y.shape[1] == 8
    assert y[:, :5].equal(F.conv2d(x, convolution.weight, padding=1))
    assert not y[:, 5:].any()
    assert convolution.eval()(x).shape[1] == 5
    assert convolution.train().float()(x.float()).shape[1] == 5
    assert Convolution(3, 16, 3).bfloat16()(x).shape[1] == 16


def test_a_layer_takes_what_was_added_before_it(padding):
    convolution, x = Convolution(5, 8, 3, 2).bfloat16(), torch.rand(2, 5, 4, 4).bfloat16()
    padded = F.pad(x, (0, 0, 0, 0, 0, 3))
    torch.testing.assert_close(convolution(padded), F.conv2d(x, convolution.weight, stride=2, padding=1))


def test_a_network_says_and_learns_the_same(padding, monkeypatch):
    """In float32, where the order of sums hardly matters."""
    x = torch.rand(6, 3, 6, 6, generator=torch.Generator().manual_seed(0)).to(kernel_device())

    def outcome(dtype: torch.dtype):
        monkeypatch.setattr("moca.models.convolution._PADDED", dtype)
        torch.manual_seed(0)
        network = nn.Sequential(Convolution(3, 5, 3), BatchNorm2d(5), BasicBlock(5, 5, 1), BasicBlock(5, 8, 2))
        network.to(x.device)
        with batches_apart((4, 2)):
            y = network(x)
        y.square().sum().backward()
        learnt, seen = ({k: v.grad for k, v in network.named_parameters()}, dict(network.named_buffers()))
        return {"as trained": y, "as tested": network.eval()(x)} | learnt | seen

    ours, theirs = outcome(torch.float32), outcome(torch.bfloat16)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
