"""Small images of bars, whose class is told by where the bar is."""

import numpy as np
import pytest
from PIL import Image

from moca import ContinualClassifier

SIDE = 12


def bars(label, count, seed=0):
    """Grey images with a bright bar in row or column `label`."""
    random = np.random.default_rng(1000 * seed + label)
    images = random.integers(0, 60, (count, SIDE, SIDE), dtype=np.uint8)
    at = 2 * (label // 2)
    bar = images[:, at : at + 2] if label % 2 == 0 else images[:, :, at : at + 2]
    bar += 180
    return images


def lesson(*labels, count=20, seed=0):
    return np.concatenate([bars(c, count, seed) for c in labels]), np.repeat(labels, count)


@pytest.fixture(scope="session")
def small():
    """Quick to teach; what is to tell classes apart reliably wants more epochs."""

    def small(**options):
        given = {"encoder": "convnet:width=4,features=8", "epochs": 6, "memory": 60, "device": "cpu"}
        return ContinualClassifier(**given | options)

    return small


@pytest.fixture
def folder(tmp_path):
    """A folder with a folder for each class."""

    def folder(name, *labels, count=20, seed=0):
        for label in labels:
            place = tmp_path / name / f"bar {label}"
            place.mkdir(parents=True, exist_ok=True)
            for number, image in enumerate(bars(label, count, seed)):
                Image.fromarray(image).save(place / f"{seed}-{number}.png")
        return tmp_path / name

    return folder
