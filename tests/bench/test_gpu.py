"""The ways that only a GPU has."""

import pytest
import torch

from moca.bench import Record

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]


def test_graphs_alone_and_packed_are_measured(make_settings):
    settings = make_settings(device="cuda", methods=["er", "er+wap"], ways=["captured"], packed=["1", "2"])
    record = Record(settings)
    assert [cell.reason for cell in record.measure()] == [""] * 6
    for cell in record.cells:
        assert cell.memory["reserved"] >= cell.memory["allocated"] > 0
        assert all(ms > 0 for ms in cell.timing.blocks)
    assert record.hardware["gpu"]
