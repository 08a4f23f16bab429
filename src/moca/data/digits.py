"""scikit-learn's handwritten digits: 1,797 grey images of 8x8 pixels, with nothing to download."""

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from moca.data.in_memory import Dataset, Split, channel_statistics
from moca.data.protocol import Protocol
from moca.random import Random
from moca.recipes import load_recipe

_TEST_SHARE = 0.25


@cache
def load_digits() -> Dataset:
    """The digits, with a fixed quarter of each class as the test set."""
    rows = _rows()
    pixels, labels = rows[:, :-1].reshape(-1, 1, 8, 8), torch.from_numpy(rows[:, -1].astype("int64"))
    images = torch.from_numpy((pixels * (255 / 16)).round().astype("uint8"))
    test = torch.zeros(len(labels), dtype=torch.bool)
    for digit in range(10):
        members = (labels == digit).nonzero().squeeze(1)
        chosen = Random(0, f"digits/test/{digit}").permutation(len(members))[: round(_TEST_SHARE * len(members))]
        test[members[chosen]] = True
    train = Split(images[~test], labels[~test])
    mean, std = channel_statistics(train.images)
    protocol = Protocol(mean, std, crop_padding=1, name="small", recipe=load_recipe("protocols")["small"])
    return Dataset("digits", train, Split(images[test], labels[test]), tuple(map(str, range(10))), protocol)


def _rows() -> NDArray[Any]:
    """One row per image: pixels from 0 to 16, then the digit. Read directly from scikit-learn's file if it is in its
    usual place, because importing scikit-learn takes more than a second."""
    package = find_spec("sklearn")
    file = Path((package and package.origin) or "").parent / "datasets/data/digits.csv.gz"
    if file.is_file():
        return np.loadtxt(file, delimiter=",")
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return np.column_stack([bunch.data, bunch.target])
