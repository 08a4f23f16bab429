"""One copy of the images for all runs of a process. Torch's meta device stands for a GPU: it holds no numbers."""

import gc

import pytest
import torch

from moca.engine import resident as module
from moca.engine.resident import _copies, resident

META = torch.device("meta")


@pytest.fixture
def room(monkeypatch):
    """Sets how many bytes there are for images."""
    return lambda count: monkeypatch.setattr(module, "_room", lambda device: count)


def test_one_copy_for_all_who_ask_and_gone_with_the_images(room):
    gc.collect()
    room(48)
    before, images = len(_copies), torch.zeros(4, 3, 2, 2, dtype=torch.uint8)
    copy = resident(images, META)
    assert copy.device == META
    assert copy.shape == images.shape
    assert resident(copy, META) is copy
    assert resident(images.clone(), META) is not copy
    room(0)
    assert resident(images, META) is copy, "there already"
    assert resident(images, torch.device("meta:0")) is copy, "the same by its number"
    del images
    gc.collect()
    assert len(_copies) == before


def test_what_does_not_fit_and_what_needs_no_copy_stay_where_they_are(room):
    images = torch.zeros(4, 3, 2, 2, dtype=torch.uint8)
    room(47)
    assert resident(images, META) is images
    assert resident(images, torch.device("cpu")) is images
