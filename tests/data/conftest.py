import numpy as np
import pytest

from moca.data import add, catalogue
from moca.data.differences import tags
from moca.data.integrity import contents
from moca.data.store import Store
from tests.data.made import npz, small_set


@pytest.fixture(autouse=True)
def store_dir(tmp_path, monkeypatch):
    """Every test has a store of its own."""
    directory = tmp_path / "store"
    monkeypatch.setenv("MOCA_DATA", str(directory))
    return directory


@pytest.fixture
def known_set(tmp_path, monkeypatch):
    """A catalogue with one small known set, 'little'; gives its images and labels."""
    home = tmp_path / "known"
    home.mkdir()
    data = small_set(classes=3, train=4, test=2)
    about = """title = "Little"
model = "convnet"
shape = [8, 8, 3]
train = 4
test = 2
fingerprint = "{}"
classes = ["ant", "bee", "cat"]

[orders]
backwards = [2, 1, 0]

[protocols.offline]
mean = [0.5, 0.5, 0.5]
std = [0.25, 0.25, 0.25]
tasks = "1+2x1"
class_order = "backwards"

[protocols.online]
mean = [0.5, 0.5, 0.5]
std = [0.5, 0.5, 0.5]
"""
    add("copy", npz(tmp_path / "reference.npz", data), data_dir=tmp_path / "other")
    right = contents(Store(tmp_path / "other").arrays("copy"))
    (home / "little.toml").write_text(about.format(right.fingerprint()))
    np.save(home / "little.npy", np.concatenate([tags(right.train_digests), tags(right.test_digests)]))
    (home / "miniimagenet.toml").write_text((catalogue._FOLDER / "miniimagenet.toml").read_text())
    monkeypatch.setattr(catalogue, "_FOLDER", home)
    catalogue.known.cache_clear()
    catalogue.names.cache_clear()
    yield data
    catalogue.known.cache_clear()
    catalogue.names.cache_clear()
