"""ResNet-18 against the published parameter counts and a plain restatement."""

import pytest
import torch
import torch.nn.functional as F

from moca import MocaError
from moca.models.encoders.resnet18 import ResNet18, Shortcut
from moca.random import Random


def count(module):
    return sum(p.numel() for p in module.parameters())


def counted_by_hand(width: int, channels: int = 3) -> int:
    """Weights of the encoder, layer by layer."""

    def convolution(a, b, side):
        return a * b * side**2 + 2 * b  # the kernel and its BatchNorm's scale and shift

    total = convolution(channels, width, 3)
    inputs = width
    for factor in (1, 2, 4, 8):
        outputs = factor * width
        total += convolution(inputs, outputs, 3) + 3 * convolution(outputs, outputs, 3)
        total += convolution(inputs, outputs, 1) if inputs != outputs else 0
        inputs = outputs
    return total


@pytest.mark.parametrize(("classes", "parameters"), [(10, 11_173_953), (100, 11_220_033), (200, 11_271_233)])
def test_parameters_at_width_64(build, classes, parameters):
    """The numbers published with the paper: encoder, class vectors, and one scale."""
    model = build("resnet18", (3, 32, 32), classes)
    assert count(model) == parameters == counted_by_hand(64) + 512 * classes + 1


@pytest.mark.parametrize(
    ("shape", "pool", "classes", "parameters"),
    [((3, 32, 32), None, 10, 1_094_750), ((3, 32, 32), 4, 100, 1_109_240), ((3, 84, 84), 4, 100, 1_157_240)],
)
def test_parameters_at_width_20(build, shape, pool, classes, parameters):
    """The online setting's reduced network with a linear head."""
    model = build({"name": "resnet18", "width": 20, "pool": pool}, shape, classes, "linear")
    assert count(model) == parameters == counted_by_hand(20) + model.encoder.features * classes + classes


@pytest.mark.parametrize(
    ("width", "side", "pool", "features"),
    [
        (20, 32, None, 160),
        (20, 32, 4, 160),
        (20, 84, 4, 640),
        (20, 84, None, 160),
        (64, 64, None, 512),
        (4, 33, 2, 128),
    ],
)
def test_feature_length(width, side, pool, features):
    # The length follows from the shapes alone, which torch computes without the numbers.
    with torch.device("meta"):
        encoder = ResNet18((3, side, side), width, pool)
        h = encoder(torch.empty(2, 3, side, side))
    assert h.shape == (2, features)
    assert encoder.features == features


def test_oblong_images():
    with torch.device("meta"):
        encoder = ResNet18((1, 40, 84), 4, 4)
        assert encoder(torch.empty(2, 1, 40, 84)).shape == (2, encoder.features)


def plain_resnet18(state, x, width, pool, training):
    """ResNet-18 written out on a state dict."""

    def normalised(x, name):
        mean, var = state[f"{name}.running_mean"], state[f"{name}.running_var"]
        if training:
            mean, var = x.mean((0, 2, 3)), x.var((0, 2, 3), unbiased=False)
        unit = (x - mean[:, None, None]) / (var[:, None, None] + 1e-5).sqrt()
        return unit * state[f"{name}.weight"][:, None, None] + state[f"{name}.bias"][:, None, None]

    def block(x, name, stride):
        out = F.conv2d(x, state[f"{name}.conv1.weight"], stride=stride, padding=1)
        out = normalised(out, f"{name}.bn1").clamp_min(0)
        out = normalised(F.conv2d(out, state[f"{name}.conv2.weight"], padding=1), f"{name}.bn2")
        if stride == 2:
            x = normalised(F.conv2d(x, state[f"{name}.shortcut.0.weight"], stride=2), f"{name}.shortcut.1")
        return (out + x).clamp_min(0)

    x = normalised(F.conv2d(x, state["stem.0.weight"], padding=1), "stem.1").clamp_min(0)
    for i, stride in enumerate((1, 2, 2, 2)):
        x = block(block(x, f"stages.{i}.0", stride), f"stages.{i}.1", 1)
    assert x.shape[1] == 8 * width
    if pool is None:
        return x.mean((2, 3))
    n, m = x.shape[2] // pool, x.shape[3] // pool
    cells = [
        [x[:, :, i * pool : (i + 1) * pool, j * pool : (j + 1) * pool].mean((2, 3)) for j in range(m)] for i in range(n)
    ]
    return torch.stack([torch.stack(row, 2) for row in cells], 2).flatten(1)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(("side", "pool"), [(16, None), (20, None), (33, 2)])
def test_against_a_plain_restatement(side, pool, training):
    torch.manual_seed(0)
    encoder = ResNet18((3, side, side), 3, pool).double()
    x = Random(0, "p").normal(4, 3, side, side).double()
    for p in encoder.parameters():  # so that BatchNorm's scales and shifts are not all one and zero
        p.data += 0.1 * torch.randn_like(p)
    for _ in range(3):
        encoder(x + torch.randn_like(x))
    encoder.train(training)
    state = {k: v.clone() for k, v in encoder.state_dict().items()}
    torch.testing.assert_close(encoder(x), plain_resnet18(state, x, 3, pool, training))


def test_features_are_not_negative():
    encoder = ResNet18((3, 16, 16), 4)
    h = encoder(Random(0, "p").normal(16, 3, 16, 16))
    assert (h >= 0).all() and (h > 0).any()


def test_no_bias_in_convolutions_and_default_batchnorm():
    encoder = ResNet18((3, 32, 32), 4)
    kinds = {type(m).__name__ for m in encoder.modules()}
    assert "MaxPool2d" not in kinds
    convolutions = [m for m in encoder.modules() if isinstance(m, torch.nn.Conv2d)]
    assert len(convolutions) == 1 + 4 * 4 + 3 and all(c.bias is None for c in convolutions)
    for bn in (m for m in encoder.modules() if isinstance(m, torch.nn.BatchNorm2d)):
        assert (bn.eps, bn.momentum) == (1e-5, 0.1)


def test_after_stage_sees_every_stage_once():
    encoder, sizes = ResNet18((3, 16, 16), 2), []

    def look(x):
        sizes.append(tuple(x.shape[1:]))
        return x

    encoder(torch.rand(2, 3, 16, 16), after_stage=look)
    assert sizes == [(2, 16, 16), (4, 8, 8), (8, 4, 4), (16, 2, 2)]


def test_a_window_larger_than_the_map_is_refused(build):
    with pytest.raises(MocaError, match=r"pool=5 is larger than the last feature map \(4x4\); use at most 4"):
        build("resnet18:pool=5", (3, 32, 32), 3)


@pytest.mark.parametrize("side", [5, 64])
def test_a_shortcut_is_a_convolution_of_that_stride(side):
    """At 64 pixels, channels last, torch's own kills the process on processors with AVX-512."""
    shortcut = Shortcut(8, 16, 2).to(memory_format=torch.channels_last)
    x = torch.randn(4, 8, side, side).contiguous(memory_format=torch.channels_last).requires_grad_()
    out = shortcut(x)
    (out**2).sum().backward()
    twin, weight = (t.detach().double().contiguous().requires_grad_() for t in (x, shortcut.weight))
    expected = F.conv2d(twin, weight, stride=2)
    (expected**2).sum().backward()
    for ours, theirs in ((out, expected), (x.grad, twin.grad), (shortcut.weight.grad, weight.grad)):
        torch.testing.assert_close(ours, theirs, check_stride=False, check_dtype=False, rtol=1e-4, atol=1e-4)
