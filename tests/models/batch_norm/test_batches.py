"""Batches that a pass holds, as layers see them that have several rows for each image."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

from moca.models.batch_norm.batches import Batches, batches_apart, batches_for, rows_weighted


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_what_is_said_of_a_row_is_said_of_all_its_parts(parts):
    weights = torch.tensor([0.2, 0.5, 0.0, 0.3])
    seen = Batches((1, 3), (1, 0), weights, weights.argmax()).seen_in(torch.zeros(4 * parts, 7))
    assert seen.sizes == (parts, 3 * parts) and seen.updates == (1, 0)
    expected = [w / parts for w in (0.2, 0.5, 0.0, 0.3) for _ in range(parts)]
    assert seen.weights.tolist() == pytest.approx(expected)
    assert seen.weights[seen.heaviest] == max(seen.weights)


def test_of_weighted_rows_the_heaviest_is_named():
    """From which the kernels measure the others: one that counts nothing may be no number."""
    with rows_weighted(torch.tensor([0.0, 0.3, 0.7])):
        assert batches_for(nn.BatchNorm1d(2)).heaviest == 2


def test_the_batches_of_a_pass_are_those_of_its_thread():
    layer = nn.BatchNorm1d(2)
    with ThreadPoolExecutor(1) as another, batches_apart([3, 4]):
        assert another.submit(batches_for, layer).result() is None
        assert batches_for(layer).sizes == (3, 4)
