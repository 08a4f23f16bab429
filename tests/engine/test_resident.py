"""One copy of the images for all runs of a process. Torch's meta device stands for a GPU: it holds no numbers."""

import gc

import torch

from moca.engine.resident import _copies, resident

META = torch.device("meta")


def test_one_copy_for_all_who_ask_and_gone_with_the_images():
    gc.collect()
    before, images = len(_copies), torch.zeros(4, 3, 2, 2, dtype=torch.uint8)
    copy = resident(images, META, room=48)
    assert copy.device == META
    assert copy.shape == images.shape
    assert resident(images, META, room=0) is copy, "there already"
    assert resident(images, torch.device("meta:0"), room=0) is copy, "the same by its number"
    assert resident(copy, META) is copy
    assert resident(images.clone(), META, room=48) is not copy
    del images
    gc.collect()
    assert len(_copies) == before


def test_what_does_not_fit_and_what_needs_no_copy_stay_where_they_are():
    images = torch.zeros(4, 3, 2, 2, dtype=torch.uint8)
    assert resident(images, META, room=47) is images
    assert resident(images, torch.device("cpu"), room=0) is images
