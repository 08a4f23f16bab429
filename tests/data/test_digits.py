"""The embedded digits: complete, split by class, and always split the same way."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits as original

import moca
from moca import MocaError
from moca.data import digits as reading


@pytest.fixture(scope="module")
def digits():
    return moca.load("digits")


def test_every_image_is_in_exactly_one_split(digits):
    bunch = original()
    assert len(digits.train) + len(digits.test) == 1797
    images = (bunch.images * 255 / 16 + 0.5).astype("uint8")
    everything = [(bytes(i), int(y)) for i, y in zip(images, bunch.target, strict=True)]
    ours = [
        (bytes(i), int(y))
        for split in (digits.train, digits.test)
        for i, y in zip(split.images.numpy(), split.labels, strict=True)
    ]
    assert sorted(ours) == sorted(everything)


def test_a_quarter_of_each_class_is_for_testing(digits):
    train, test = (torch.bincount(split.labels, minlength=10) for split in (digits.train, digits.test))
    for held, size in zip(test.tolist(), (train + test).tolist(), strict=True):
        assert held == round(0.25 * size)


def test_form(digits):
    assert digits.shape == (1, 8, 8)
    assert digits.train.images.dtype == torch.uint8
    assert digits.train.labels.dtype == torch.int64
    assert (digits.train.images.min(), digits.train.images.max()) == (0, 255)
    assert digits.classes == tuple("0123456789")


def test_statistics_are_those_of_the_training_pixels(digits):
    pixels = digits.train.images.numpy() / 255
    assert digits.protocol.mean == pytest.approx([np.mean(pixels)])
    assert digits.protocol.std == pytest.approx([np.std(pixels)])
    assert digits.protocol.crop_padding == 1
    assert not digits.protocol.flip, "a mirrored digit is another sign"


def test_always_the_same_split(digits):
    again = moca.load("digits")
    assert again.test.images.equal(digits.test.images)
    assert again.test.labels.equal(digits.test.labels)


def test_unknown_name_names_the_nearest():
    with pytest.raises(MocaError, match=r"unknown data set 'digit' .*; did you mean 'digits'"):
        moca.load("digit")


def test_the_file_holds_what_the_package_gives(monkeypatch):
    read = reading._rows()
    monkeypatch.setattr(reading, "find_spec", lambda name: None)
    assert (reading._rows() == read).all()
