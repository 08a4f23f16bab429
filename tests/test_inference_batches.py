"""How many images are asked about together."""

import torch

from moca.inference_batches import at_once


def test_fewer_of_large_images():
    def asked(*shape, most=2000):
        return at_once(torch.empty(0, *shape), most)

    assert asked(3, 32, 32) == asked(1, 8, 8) == asked(512, 1, 1) == 2000
    assert asked(3, 64, 64) == 500
    assert asked(3, 224, 224) == 40
    assert asked(3, 4000, 3000) == 1
    assert asked(3, 84, 84, most=100) == 100
