"""Heads and encoders made by hand draw from torch's global generator: the same numbers whatever ran before."""

import pytest
import torch


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)
