"""scikit-learn's handwritten digits: 1,797 grey images of 8x8 pixels, inside the package, nothing to download."""

from functools import cache

import torch

from moca.data.in_memory import Dataset, Protocol, Split, channel_statistics
from moca.random import Random
from moca.recipes import load_recipe

_TEST_SHARE = 0.25


@cache
def load_digits() -> Dataset:
    """The digits, a fixed quarter of each class held out as the test set."""
    from sklearn.datasets import load_digits as load

    bunch = load()
    images = torch.from_numpy((bunch.images * (255 / 16)).round().astype("uint8")).unsqueeze(1)
    labels = torch.from_numpy(bunch.target.astype("int64"))
    test = torch.zeros(len(labels), dtype=torch.bool)
    for digit in range(10):
        members = (labels == digit).nonzero().squeeze(1)
        chosen = Random(0, f"digits/test/{digit}").permutation(len(members))[: round(_TEST_SHARE * len(members))]
        test[members[chosen]] = True
    train = Split(images[~test], labels[~test])
    mean, std = channel_statistics(train.images)
    protocol = Protocol(mean, std, crop_padding=1, name="small", recipe=load_recipe("protocols")["small"])
    return Dataset("digits", train, Split(images[test], labels[test]), tuple(map(str, range(10))), protocol)
