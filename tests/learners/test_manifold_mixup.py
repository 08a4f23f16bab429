"""Manifold mixup: how shares are distributed, what is mixed where, and whose labels count."""

from types import SimpleNamespace

import pytest
import torch

from moca import Batch, MocaError
from moca.learners.manifold_mixup import ManifoldMixup, beta
from moca.models import build_model
from moca.models.batch_norm.batches import batches_apart
from moca.random import Random
from moca.settings.base import validate
from moca.settings.run import Run
from tests.learners.conftest import task


def network(name="convnet:width=2,features=4"):
    settings = validate(Run, {"model": name})
    return build_model(settings.model, settings.head, (1, 4, 4), 6, 0)


def started(model, **options):
    one = ManifoldMixup(**options).attach(model, 6)
    one.begin_task(task(0, 1))
    one.begin_task(task(2, 3))
    return one


@pytest.mark.parametrize("alpha", [1, 2, 5])
def test_shares_are_drawn_from_beta(alpha):
    """By their mean, their variance, 1 / (4 (2 alpha + 1)), and their fourth moment."""
    random = Random(0, "p")
    away = torch.tensor([beta(alpha, random).item() for _ in range(1000)], dtype=torch.float64) - 0.5
    variance = 1 / (4 * (2 * alpha + 1))
    assert away.mean().item() == pytest.approx(0, abs=4 * (variance / 1000) ** 0.5)
    assert away.square().mean().item() == pytest.approx(variance, rel=0.15)
    fourth = 3 / (16 * (2 * alpha + 1) * (2 * alpha + 3))
    assert away.pow(4).mean().item() == pytest.approx(fourth, rel=0.3)


def test_exactly_one_of_three_layers_is_mixed_each_equally_often():
    """Told by the features: mixed before or after a stage, they are those of a pass with that mixing alone."""
    model = network().eval()
    one, x = started(model), torch.randn(5, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    times = [0, 0, 0]
    for _ in range(90):
        h = one.encode(x)
        for site in range(3):
            calls = iter(range(3))

            def mix(z, site=site, calls=calls):
                return one.share * z + (1 - one.share) * z[one.partner] if next(calls, 9) == site else z

            times[site] += torch.allclose(model.encode(mix(x), after_stage=mix), h, atol=1e-5)
    assert sum(times) <= 93, "the three differ"
    assert min(times) > 17


@pytest.mark.parametrize(("stages", "layers"), [(4, 3), (2, 3), (1, 2), (0, 1)])
def test_no_more_than_two_stages_are_mixed_and_fewer_where_there_are_fewer(model, stages, layers):
    """An encoder that only shows what is done at its stages to rows that all differ."""
    one, rows, seen = started(model), torch.eye(4), set()

    def encode(x, after_stage):
        mixed = [not h.equal(rows) for h in (x, *(after_stage(rows) for _ in range(stages)))]
        if not one.partner.equal(torch.arange(4)):
            assert mixed.count(True) == 1
            seen.add(mixed.index(True))

    one.model = SimpleNamespace(encoder=SimpleNamespace(stages=range(stages)), encode=encode)
    for _ in range(60):
        one.encode(rows)
    assert seen == set(range(layers))


def test_both_labels_count(model):
    one = started(network())
    one.model = model
    one.share, one.partner = torch.tensor(0.7), torch.tensor([4, 2, 0, 1, 3])
    h = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    y = torch.tensor([2, 3, 0, 1, 0])
    new = Batch(y=y[:2], features=h[:2], logits=model.classify(h[:2]))
    losses = one.losses(new, Batch(y=y[2:], features=h[2:]))
    surprise = -model.classify(h).log_softmax(1)
    each = [0.7 * surprise[i, y[i]] + 0.3 * surprise[i, y[one.partner[i]]] for i in range(5)]
    assert losses["new"].item() == pytest.approx(sum(each[:2]).item() / 2, rel=1e-5)
    assert losses["replay"].item() == pytest.approx(sum(each[2:]).item() / 3, rel=1e-5)


def test_new_and_replayed_samples_are_mixed_with_each_other():
    one, x, across = started(network()), torch.randn(6, 1, 4, 4), 0
    for _ in range(20):
        with batches_apart([3, 3]):
            one.encode(x)
        assert sorted(one.partner.tolist()) == list(range(6))
        across += sum((i < 3) != (j < 3) for i, j in enumerate(one.partner.tolist()))
    assert 30 < across < 90


def test_an_encoder_of_ones_own_has_no_stages(model):
    with pytest.raises(MocaError, match="has no stages to look into; use one of moca's"):
        started(model).encode(torch.randn(4, 3))


class TestAdapted:
    def losses(self, one, make_batch, sizes=(3, 5)):
        new = make_batch([2, 3, 3, 2, 2, 3][: sizes[0]])
        labels = [0, 2, 1, 0, 3][: sizes[1]]
        replay = make_batch(labels, seed=1, old=[y < 2 for y in labels])
        return one.losses(new, replay), new, replay

    @pytest.mark.parametrize("sizes", [(3, 5), (6, 4), (1, 5)])
    def test_old_rows_lie_between_themselves_and_a_new_one_nearer_to_themselves(self, model, make_batch, slow, sizes):
        one = started(model, form="adapted")
        losses, new, replay = self.losses(one, make_batch, sizes)
        for i, (h, moved) in enumerate(zip(replay.features, replay.moved, strict=True)):
            if not replay.old[i]:
                assert moved.equal(h)
                continue
            ways = (new.features - h).detach()
            step = (moved - h).detach()
            fits = [(step @ way / (way @ way)).item() for way in ways if torch.allclose(
                step, step @ way / (way @ way) * way, atol=1e-5)]  # fmt: skip
            assert len(fits) == 1 and 0 <= fits[0] <= 0.5
        expected = slow.cross_entropy(replay.moved.detach(), replay.y)
        assert losses["replay"].item() == pytest.approx(expected, rel=1e-5), "labels stay"
        assert losses["new"].item() == pytest.approx(slow.cross_entropy(new.features, new.y), rel=1e-5)

    def test_nothing_flows_back_into_new_features(self, model, make_batch):
        losses, new, _ = self.losses(started(model, form="adapted"), make_batch)
        (slope,) = torch.autograd.grad(losses["replay"], new.features)
        assert not slope.any()

    def test_the_strength_is_uniform_below_a_half(self, model):
        one, shares = started(model, form="adapted"), []
        old, new = torch.zeros(1, 3), torch.ones(1, 3)
        for _ in range(1000):
            replay = Batch(features=old, y=torch.tensor([0]), old=torch.tensor([True]))
            shares.append(one._mixed(replay, Batch(features=new, y=torch.tensor([2])))[0, 0].item())
        assert max(shares) <= 0.5
        assert torch.tensor(shares).mean().item() == pytest.approx(0.25, abs=0.02)
        assert torch.tensor(shares).std().item() == pytest.approx(0.5 / 12**0.5, rel=0.07)

    def test_the_first_task_is_er(self, model, make_batch, slow):
        one = ManifoldMixup(form="adapted").attach(model, 6)
        one.begin_task(task(0, 1, 2, 3))
        losses, _, replay = self.losses(one, make_batch)
        assert losses["replay"].item() == pytest.approx(slow.cross_entropy(replay.features, replay.y), rel=1e-5)
