"""Models by their settings. Heads and encoders made by hand draw from torch's global generator: the same numbers
whatever ran before."""

import pytest
import torch

from moca.models import build_model
from moca.settings import Run, validate


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


@pytest.fixture
def build():
    """A model by the settings of its encoder, in any accepted form, and of its head."""

    def build(encoder, shape, classes, head="cosine", seed=0):
        run = validate(Run, {"model": encoder, "head": head})
        return build_model(run.model, run.head, shape, classes, seed)

    return build
