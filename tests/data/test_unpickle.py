import os
import pickle

import numpy as np
import pytest

from moca.data.unpickle import _ALLOWED, unpickle
from moca.errors import MocaError
from tests.data.made import pictures, python2_pickle


def test_what_cifars_files_hold_is_read(tmp_path):
    data = pictures(4, side=2).reshape(4, -1)
    path = tmp_path / "batch"
    path.write_bytes(python2_pickle({b"data": data, b"labels": [3, 1, 2, 0], b"filenames": [b"a.png"]}))
    found = unpickle(path)
    np.testing.assert_array_equal(found["data"], data)
    assert found["labels"] == [3, 1, 2, 0] and found["filenames"] == ["a.png"]


class Runs:
    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("function", [os.system, eval, exec, open, getattr, np.load, np.memmap])
def test_nothing_in_a_pickle_is_ever_run(function, protocol, tmp_path):
    marker = tmp_path / "ran"
    path = tmp_path / "batch"
    path.write_bytes(pickle.dumps({"data": Runs(function, f"touch {marker}")}, protocol=protocol))
    with pytest.raises(MocaError, match=r"is not a CIFAR file .it names .*, which no CIFAR file does"):
        unpickle(path)
    assert not marker.exists()


@pytest.mark.parametrize(
    "crafted",
    [
        b"cnumpy\nndarray\n}X\x01\x00\x00\x00xK\x01sb.",
        b"cnumpy\ndtype\n(N}X\x04\x00\x00\x00makeK\x01stb.",
        b"cnumpy.core.multiarray\n_reconstruct\n(NNNtR(K\x01(J\xff\xff\xff\x7ftcnumpy\ndtype\n(U\x02u1tR\x89U\x01atb.",
        b"cnumpy.core.multiarray\n_reconstruct\n(NNNtR(K\x01(K\x01tcnumpy\ndtype\n(U\x02O8tR\x89](ctime\ntime\netb.",
        b"cnumpy.core.multiarray\n_reconstruct\n(NNNtR(K\x01(K\x01tcnumpy\ndtype\n(U\x02O8tR\x89]tb.",
        b"cnumpy.core.multiarray\n_reconstruct\n(NNNtRK\x07b.",
        b"]q\x00.",
        b"\x80\x02}",
        b"",
        b"\xff" * 100,
    ],
)
def test_crafted_pickles_are_one_clear_line(crafted, tmp_path):
    before = [slot.make for slot in _ALLOWED.values()]
    path = tmp_path / "batch"
    path.write_bytes(crafted)
    with pytest.raises(MocaError, match=r"is not a CIFAR file"):
        unpickle(path)
    assert [slot.make for slot in _ALLOWED.values()] == before
