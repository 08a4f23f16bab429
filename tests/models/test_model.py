"""Encoder and head together; initial weights are a function of the seed alone; encoders of one's own."""

import pytest
import torch
from torch import nn

from moca import LinearHead, MocaError
from moca.models import Model
from moca.parts import ENCODERS

SMALL = ["resnet18:width=2", "convnet:width=2,features=4", "mlp:width=8,features=4"]
ELSEWHERE = {"identity", "pretrained"}
"""One has no weights of its own, and one those of another encoder: tests/classifier/test_frozen.py."""
every_encoder = pytest.mark.parametrize("encoder", SMALL, ids=lambda e: e.partition(":")[0])
SHAPE = (1, 8, 8)


def same(a: Model, b: Model) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a.state_dict().values(), b.state_dict().values(), strict=True))


def test_every_encoder_is_tested():
    assert {e.partition(":")[0] for e in SMALL} | ELSEWHERE == set(ENCODERS.built_in)


@every_encoder
@pytest.mark.parametrize("head", ["cosine", "linear"])
def test_weights_depend_on_the_seed_alone(build, encoder, head):
    torch.manual_seed(1)
    first = build(encoder, SHAPE, 3, head, seed=5)
    torch.manual_seed(2)
    assert same(build(encoder, SHAPE, 3, head, seed=5), first)
    other = build(encoder, SHAPE, 3, head, seed=6)
    assert not torch.equal(other.head.weight, first.head.weight)
    assert not torch.equal(next(other.encoder.parameters()), next(first.encoder.parameters()))


@every_encoder
def test_the_global_state_is_untouched(build, encoder, monkeypatch):
    seeded = []
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeded.append)
    torch.manual_seed(3)
    seeded.clear()
    state = torch.random.get_rng_state()
    build(encoder, SHAPE, 3)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert not seeded, "the generators of other devices were seeded too"


@every_encoder
def test_forward_is_classify_after_encode(build, encoder):
    model = build(encoder, SHAPE, 3)
    x = torch.rand(4, *SHAPE)
    h = model.encode(x)
    assert h.shape == (4, model.encoder.features) and h.dtype == torch.float32
    assert torch.equal(model.classify(h), model.head(h))
    torch.testing.assert_close(model(x), model.classify(model.encode(x)))


def test_features_are_float32_whatever_the_encoder_s_type(build):
    model = build("mlp", SHAPE, 3)
    model.encoder.bfloat16()
    assert model.encode(torch.rand(2, *SHAPE).bfloat16()).dtype == torch.float32


@every_encoder
def test_settings_choose_the_encoder(build, encoder):
    chosen = build(encoder, SHAPE, 3, "linear").encoder
    assert type(chosen) is ENCODERS.find(encoder.partition(":")[0])


def test_options_reach_the_encoder(build):
    model = build("mlp:width=11,depth=3,features=2", SHAPE, 3, "linear")
    assert [tuple(p.shape) for p in model.encoder.parameters() if p.dim() == 2] == [
        (11, 64),
        (11, 11),
        (11, 11),
        (2, 11),
    ]
    assert model.head.weight.shape == (3, 2)
    assert build("resnet18:width=2,pool=2", (1, 32, 32), 3, "linear").encoder.features == 64


def test_any_modules_will_do():
    model = Model(nn.Flatten(), nn.Linear(64, 3))
    x = torch.rand(2, *SHAPE)
    assert torch.equal(model(x), model.head(x.flatten(1)))


def test_a_model_grows_by_its_head():
    model = Model(nn.Flatten(), LinearHead(64, 3))
    x = torch.rand(2, *SHAPE)
    before = model(x)
    model.grow(5)
    torch.testing.assert_close(model(x)[:, :3], before)
    assert model(x).shape == (2, 5)


def test_a_plain_head_cannot_grow():
    with pytest.raises(MocaError, match=r"only moca's own heads can grow; use moca.LinearHead or moca.CosineHead"):
        Model(nn.Flatten(), nn.Linear(64, 3)).grow(5)


def test_an_own_encoder_has_no_stages():
    with pytest.raises(MocaError, match="an encoder of your own has no stages"):
        Model(nn.Flatten(), nn.Linear(64, 3)).encode(torch.rand(2, *SHAPE), after_stage=torch.zeros_like)


def flat(width: int = 3) -> nn.Module:
    """A function that does not ask for the shape."""
    return nn.Sequential(nn.Flatten(), nn.Linear(64, width))


def shaped(shape: tuple[int, int, int], width: int = 3) -> nn.Module:
    """A function that does."""
    return nn.Sequential(nn.Flatten(), nn.Linear(shape[0] * shape[1] * shape[2], width))


class Dropped(nn.Module):
    """Behaves differently in training."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.layer = nn.BatchNorm2d(1), nn.Linear(64, 4)

    def forward(self, x):
        return nn.functional.dropout(self.layer(self.norm(x).flatten(1)), training=self.training)


class TestOwnEncoders:
    """Modules, classes and functions of the user's own: the head is made to measure."""

    @pytest.mark.parametrize("given", [flat, shaped, f"{__name__}.flat", f"{__name__}.shaped:width=3", flat(3)])
    @pytest.mark.parametrize("head", ["cosine", "linear"])
    def test_the_length_of_the_features_is_found(self, build, given, head):
        model = build(given, SHAPE, 5, head)
        assert model.head.weight.shape == (5, 3)
        assert model(torch.rand(2, *SHAPE)).shape == (2, 5)

    def test_a_module_may_be_on_another_device(self, build):
        """Torch's meta device stands for a GPU."""
        assert build(flat(3).to("meta"), SHAPE, 5).head.weight.shape == (5, 3)

    @pytest.mark.parametrize("given", [flat, shaped, Dropped])
    def test_weights_depend_on_the_seed_alone(self, build, given):
        torch.manual_seed(1)
        first = build(given, SHAPE, 3, seed=5)
        torch.manual_seed(2)
        assert same(build(given, SHAPE, 3, seed=5), first)
        assert not same(build(given, SHAPE, 3, seed=6), first)

    def test_a_module_begins_with_the_weights_it_has(self, build):
        module = flat(3)
        model = build(module, SHAPE, 5)
        assert torch.equal(model.encoder[1].weight, module[1].weight)
        assert model.encoder is not module

    @pytest.mark.parametrize("training", [True, False])
    def test_finding_the_length_leaves_no_trace(self, build, training):
        module = Dropped().train(training)
        model = build(module, SHAPE, 5)
        assert model.encoder.training == training
        assert model.encoder.norm.num_batches_tracked == 0
        assert torch.equal(model.encoder.norm.running_var, torch.ones(1))

    @pytest.mark.parametrize(
        ("given", "says"),
        [
            (nn.Linear(3, 2), r"model 'Linear' cannot take images of 1x8x8: "),
            (
                nn.Conv2d(1, 2, 3),
                r"model 'Conv2d' must make one feature vector .*: \(2, d\) of 2 images, not \(2, 2, 6",
            ),
            (nn.Flatten(0), r"model 'Flatten' must make one feature vector of each image"),
            (lambda: 5, r"model '<lambda>' must be a torch module or make one; it is of type int"),
        ],
    )
    def test_what_is_no_encoder_is_told_in_one_line(self, build, given, says):
        with pytest.raises(MocaError, match=says) as caught:
            build(given, SHAPE, 3)
        assert "\n" not in str(caught.value)


def test_an_encoder_that_returns_something_else_is_told_and_what_to_do():
    class Two(nn.Module):
        def forward(self, x):
            return x, x

    with pytest.raises(TypeError, match=r"returns one tensor, .* not tuple; wrap it in a module that picks or pools"):
        Model(Two(), LinearHead(3, 2)).encode(torch.zeros(4, 3))
