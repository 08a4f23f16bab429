"""Cosine and linear heads against loops; growing keeps what was there."""

import copy
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from moca import MocaError
from moca.models import CosineHead, LinearHead, SimplexHead, build_head
from moca.models.heads import simplex
from moca.random import Random
from moca.settings import heads


def test_cosine_against_a_loop():
    head, h = CosineHead(5, 4, scale=3.0), Random(0, "p").normal(6, 5)
    expected = [[3 * float(x @ w) / float(x.norm() * w.norm()) for w in head.weight.detach()] for x in h]
    torch.testing.assert_close(head(h), torch.tensor(expected))


def test_linear_against_a_loop():
    head, h = LinearHead(5, 4), Random(0, "p").normal(6, 5)
    expected = [
        [float(x @ w) + float(b) for w, b in zip(head.weight.detach(), head.bias.detach(), strict=True)] for x in h
    ]
    torch.testing.assert_close(head(h), torch.tensor(expected))


@settings(deadline=None, derandomize=True, max_examples=50)
@given(seed=st.integers(0, 10**6), scale=st.floats(0.1, 30), length=st.floats(1e-3, 1e3))
def test_cosine_logits_are_bounded_by_the_scale_and_blind_to_length(seed, scale, length):
    head, h = CosineHead(6, 4, scale), Random(seed, "p").normal(5, 6)
    logits = head(h)
    assert logits.abs().max() <= scale * (1 + 1e-5)
    torch.testing.assert_close(head(length * h), logits, rtol=1e-4, atol=1e-4)
    assert head(head.weight.data).diagonal().tolist() == pytest.approx([scale] * 4, rel=1e-5)


def test_scale_is_learnable_or_fixed():
    assert CosineHead(5, 4).scale.item() == 1.0
    for learnable in (True, False):
        head = CosineHead(5, 4, 10.0, learnable)
        assert head.scale.requires_grad == learnable
        head(torch.rand(3, 5)).sum().backward()
        assert (head.scale.grad is not None) == learnable
        assert head.weight.grad is not None
        assert "scale" in head.state_dict()


def test_scale_s_gradient_is_the_cosine():
    head, h = CosineHead(5, 4, 7.0), torch.rand(1, 5)
    head(h)[0, 2].backward()
    assert head.scale.grad.item() == pytest.approx(torch.cosine_similarity(h[0], head.weight[2], 0).item(), rel=1e-5)


def test_gradient_of_a_zero_feature_is_zero():
    """A dead feature must not blow up the step of its batch."""
    h = torch.zeros(2, 5, requires_grad=True)
    logits = CosineHead(5, 4)(h)
    assert torch.equal(logits, torch.zeros(2, 4))
    (gradient,) = torch.autograd.grad(logits[:, 0].sum(), h)
    assert torch.equal(gradient, torch.zeros(2, 5))


@pytest.mark.parametrize("make", [CosineHead, LinearHead])
def test_initial_rows_are_uniform_within_one_over_root_d(make):
    head, bound = make(64, 500), 1 / math.sqrt(64)
    for p in head.parameters():
        if p.dim():
            assert p.abs().max() <= bound
            assert stats.kstest(p.detach().flatten().numpy(), stats.uniform(-bound, 2 * bound).cdf).pvalue > 1e-3


@pytest.mark.parametrize("make", [lambda: CosineHead(5, 4, 3.0, learnable=False), lambda: LinearHead(5, 4)])
class TestGrow:
    def test_old_rows_and_logits_are_kept(self, make):
        head, h = make(), Random(0, "p").normal(6, 5)
        before = {k: v.clone() for k, v in head.state_dict().items()}
        logits = head(h)
        head.grow(9)
        assert head(h).shape == (6, 9)
        torch.testing.assert_close(head(h)[:, :4], logits)
        for name, value in head.state_dict().items():
            kept = value[:4] if value.dim() else value
            assert torch.equal(kept, before[name])
            assert not value.dim() or len(value) == 9

    def test_new_rows_are_like_the_first_ones(self, make):
        head = make()
        head.grow(2000)
        rows = head.weight[4:].detach()
        bound = 1 / math.sqrt(5)
        assert stats.kstest(rows.flatten().numpy(), stats.uniform(-bound, 2 * bound).cdf).pvalue > 1e-3

    def test_nothing_happens_when_there_are_enough(self, make):
        head = make()
        parameters = dict(head.named_parameters())
        head.grow(4)
        head.grow(2)
        assert all(p is parameters[name] for name, p in head.named_parameters())

    def test_what_is_trained_stays_so(self, make):
        head = make()
        trained = {name: p.requires_grad for name, p in head.named_parameters()}
        head.grow(6)
        assert {name: p.requires_grad for name, p in head.named_parameters()} == trained
        head(torch.rand(2, 5)).sum().backward()
        assert head.weight.grad[4:].abs().sum() > 0

    @pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
    def test_the_type_is_kept(self, make, dtype):
        head = make().to(dtype)
        head.grow(6)
        assert all(p.dtype == dtype for p in head.parameters())

    def test_a_grown_head_saves_and_copies(self, make):
        head = make()
        head.grow(6)
        h = torch.rand(2, 5)
        assert torch.equal(copy.deepcopy(head)(h), head(h))


def test_settings_choose_the_head():
    head = build_head(heads.Cosine(scale=10, learnable=False), 5, 4)
    assert isinstance(head, CosineHead) and head.scale.item() == 10 and not head.scale.requires_grad
    assert build_head(heads.Cosine(), 5, 4).scale.requires_grad
    assert isinstance(build_head(heads.Linear(), 5, 4), LinearHead)
    assert head.weight.shape == (4, 5)


@pytest.mark.parametrize("corners", [2, 3, 4, 10, 100])
def test_the_corners_of_a_simplex_are_as_far_from_each_other_as_can_be(corners):
    points = simplex(corners).double()
    cosines = points @ points.T
    expected = torch.full((corners, corners), -1 / (corners - 1), dtype=torch.float64).fill_diagonal_(1)
    torch.testing.assert_close(cosines, expected, atol=1e-6, rtol=0)
    assert points.shape == (corners, corners - 1)
    assert points.sum(0).abs().max() < 1e-5


def test_simplex_head_against_a_loop():
    head, h = SimplexHead(5, 4), Random(0, "p").normal(6, 5)
    points = simplex(4)
    expected = [[float((head.map.detach() @ x + head.bias.detach()) @ corner) for corner in points] for x in h]
    torch.testing.assert_close(head(h).detach(), torch.tensor(expected))
    torch.testing.assert_close(head(h).sum(1).detach(), torch.zeros(6), atol=1e-5, rtol=0)
    torch.testing.assert_close(h @ head.weight.T + points @ head.bias, head(h))


def test_only_the_map_of_a_simplex_head_is_trained_and_kept():
    head = build_head(heads.Simplex(), 5, 4)
    assert {name for name, _ in head.named_parameters()} == {"map", "bias"} == set(head.state_dict())
    head(torch.rand(3, 5)).square().sum().backward()
    assert head.map.grad.any() and not head.corners.requires_grad


def test_a_simplex_needs_two_classes_and_cannot_grow():
    with pytest.raises(MocaError, match="at least 2 classes"):
        SimplexHead(5, 1)
    head = SimplexHead(5, 4)
    head.grow(4)
    with pytest.raises(MocaError, match="cannot grow"):
        head.grow(5)
