"""Inner products of samples' gradients against a backward pass a sample."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from moca import CosineHead, LinearHead, Model
from moca.models import gradient_products, per_sample
from moca.models.batch_norm.layer import BatchNorm2d
from moca.models.encoders.convnet import ConvNet
from moca.models.encoders.mlp import MLP
from moca.models.encoders.resnet18 import ResNet18

SHAPE = (3, 8, 8)


class Twice(nn.Module):
    """A layer that is called twice, so that a sample's gradient is more than that of one call."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(192, 192)

    def forward(self, x):
        return self.layer(torch.tanh(self.layer(x.flatten(1))))


class Borrowing(nn.Module):
    """A layer whose weights are used without calling it, by another that has weights, too."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(8, 16)
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)

    def forward(self, x):
        rows = self.embed(x.flatten(1, 2))
        return self.attention(rows, rows, rows)[0].mean(1)


class Scaled(nn.Module):
    """A kind of layer nobody knows."""

    def __init__(self):
        super().__init__()
        self.factor = nn.Parameter(torch.rand(3, 1, 1))

    def forward(self, x):
        return torch.sin(self.factor * x)


class Tied(nn.Module):
    """Two layers with one weight."""

    def __init__(self):
        super().__init__()
        self.one, self.other = nn.Linear(192, 192), nn.Linear(192, 192)
        self.other.weight = self.one.weight

    def forward(self, x):
        return self.other(torch.tanh(self.one(x.flatten(1))))


class Gated(nn.Module):
    """A layer that is handed a second row a sample by name."""

    def __init__(self):
        super().__init__()
        self.gate = Gate()

    def forward(self, x):
        return self.gate(x.flatten(1), by=torch.sin(x.flatten(1)))


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.factor = nn.Parameter(torch.rand(192))

    def forward(self, x, by):
        return self.factor * x * by


def convolutions(**options):
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, **options), BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 2, 1, bias=False), nn.Flatten()
    )


NETWORKS = {
    "resnet18": lambda: ResNet18(SHAPE, width=3),
    "convnet": lambda: ConvNet(SHAPE, width=4, features=5),
    "mlp": lambda: MLP(SHAPE, width=7, features=5),
    "strided": lambda: convolutions(stride=(2, 1), padding=(0, 2)),
    "grouped": lambda: convolutions(groups=3),
    "dilated": lambda: convolutions(dilation=2),
    "reflecting": lambda: convolutions(padding=1, padding_mode="reflect"),
    "same": lambda: convolutions(padding="same"),
    "norm of torch": lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Tanh(), nn.Flatten()),
    "rows of words": lambda: nn.Sequential(nn.Flatten(1, 2), nn.Linear(8, 3), nn.Tanh(), nn.Flatten()),
    "unknown": lambda: nn.Sequential(Scaled(), nn.Flatten()),
    "in place": lambda: nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Conv2d(4, 2, 3), nn.ReLU(True), nn.Flatten()
    ),
    "tied": Tied,
    "gated": Gated,
    "twice": Twice,
    "borrowing": Borrowing,
}


def network(name, head=CosineHead):
    torch.manual_seed(0)
    encoder = NETWORKS[name]()
    model = Model(encoder, head(encoder(torch.zeros(2, *SHAPE)).shape[1], 4))
    for layer in model.modules():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):
            nn.init.uniform_(layer.weight, 0.5, 1.5)
            nn.init.uniform_(layer.running_mean, -0.3, 0.3)
    return model


def samples(rows=5):
    generator = torch.Generator().manual_seed(3)
    return torch.randn(rows, *SHAPE, generator=generator), torch.arange(rows) % 4


def naive(model, x, y):
    """The product of the gradients of every two samples, each by a backward pass of its own."""
    model.eval()
    learnt = [p for p in model.parameters() if p.requires_grad]
    rows = []
    for i in range(len(x)):
        slopes = torch.autograd.grad(F.cross_entropy(model(x[i : i + 1]), y[i : i + 1]), learnt)
        rows.append(torch.cat([slope.flatten() for slope in slopes]))
    model.train()
    return torch.tensor([[(a * b).sum().item() for a in rows] for b in rows])


@pytest.mark.parametrize("head", [CosineHead, LinearHead, nn.Linear])
@pytest.mark.parametrize("name", NETWORKS)
def test_products_are_those_of_one_backward_pass_a_sample(name, head):
    model = network(name, head)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    products = gradient_products.gradient_products(model, *samples())
    torch.testing.assert_close(products, naive(model, *samples()), rtol=1e-4, atol=1e-5)
    assert model.training and all(layer.training for layer in model.modules())
    assert all(value.equal(before[key]) for key, value in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())
    assert not any(layer._forward_hooks for layer in model.modules())


@pytest.mark.parametrize("name", ["resnet18", "convnet", "mlp"])
def test_our_encoders_need_no_pass_of_the_whole_network_a_sample(name, monkeypatch):
    monkeypatch.setattr(gradient_products, "_of_the_whole", None)
    gradient_products.gradient_products(network(name), *samples())


def test_however_many_are_held_at_once(monkeypatch):
    model = network("resnet18")
    expected = gradient_products.gradient_products(model, *samples())
    monkeypatch.setattr(per_sample, "_NUMBERS", 1)
    torch.testing.assert_close(gradient_products.gradient_products(model, *samples()), expected)


@pytest.mark.parametrize("fixed", ["weight", "bias"])
@pytest.mark.parametrize("name", ["strided", "convnet"])
def test_weights_that_are_not_learnt_do_not_count(name, fixed):
    model = network(name)
    for key, parameter in model.encoder.named_parameters():
        parameter.requires_grad_(not key.endswith(fixed))
    products = gradient_products.gradient_products(model, *samples())
    torch.testing.assert_close(products, naive(model, *samples()), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["resnet18", "grouped", "norm of torch", "twice"])
def test_in_bfloat16_cosines_are_nearly_the_same(name):
    model = network(name)
    exact = naive(model, *samples())
    model.bf16 = True
    products = gradient_products.gradient_products(model, *samples())
    assert products.dtype == torch.float32
    cosines = [g / (g.diagonal() * g.diagonal()[:, None]).sqrt() for g in (products, exact)]
    torch.testing.assert_close(*cosines, rtol=0, atol=0.03)
