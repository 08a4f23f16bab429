"""Spectra: known ones, and torch's own decomposition."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from moca.measures.spectrum import effective_rank, gram, shares, singular_values


@pytest.mark.parametrize("k", [1, 3, 8])
def test_k_equal_values_have_rank_k(k):
    assert effective_rank(torch.cat([torch.full((k,), 5.0), torch.zeros(4)]).double()) == pytest.approx(k)


def test_two_values_in_closed_form():
    values = torch.tensor([3.0, 1.0]).double()
    assert effective_rank(values) == pytest.approx(math.exp(-(0.75 * math.log(0.75) + 0.25 * math.log(0.25))))
    assert shares(values).tolist() == [0.75, 0.25]


def test_nothing_has_no_rank():
    assert effective_rank(torch.zeros(5)) == 0
    assert shares(torch.zeros(5)).tolist() == [0] * 5


def test_grams_of_batches_add_up_to_the_singular_values_of_all_rows():
    rows = (torch.randn(60, 12).double() @ torch.diag(torch.logspace(0, -3, 12).double())).float()
    total = sum(gram(part) for part in rows.split(7))
    torch.testing.assert_close(singular_values(total), torch.linalg.svdvals(rows.double()), rtol=1e-7, atol=1e-12)


@settings(max_examples=25)
@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=10), st.floats(0.01, 100))
def test_the_rank_lies_between_one_and_all_and_knows_no_scale(values, scale):
    s = torch.tensor(values).double()
    rank = effective_rank(s)
    assert 1 - 1e-9 <= rank <= len(values) + 1e-9
    assert effective_rank(scale * s) == pytest.approx(rank)
