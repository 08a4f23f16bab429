import os
import pickle

import numpy as np
import pytest

from moca.data.unpickle import unpickle
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
    with pytest.raises(MocaError, match=r"is not a CIFAR file \(it names .*, which no CIFAR file does\)"):
        unpickle(path)
    assert not marker.exists()


ADDRESS = (
    b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00tU\x01btR(K\x01(K\x01tcnumpy\ndtype\n(U\x02O8K\x00K\x01tR"
    b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89U\x08AAAAAAAAtb."
)
"""An array of Python objects said to be bytes: numpy would go to the address that they spell."""


@pytest.mark.parametrize(
    "crafted",
    [
        b"cnumpy\nndarray\n}X\x01\x00\x00\x00xK\x01sb.",
        b"cnumpy\ndtype\n(N}X\x04\x00\x00\x00makeK\x01stb.",
        b"cnumpy.core.multiarray\n_reconstruct\n(NNNtR(K\x01(J\xff\xff\xff\x7ftcnumpy\ndtype\n(U\x02u1tR\x89U\x01atb.",
        b"cnumpy.core.multiarray\n_reconstruct\n(NNNtR(K\x01(K\x01tcnumpy\ndtype\n(U\x02O8tR\x89](ctime\ntime\netb.",
        b"cnumpy.core.multiarray\n_reconstruct\n(NNNtR(K\x01(K\x01tcnumpy\ndtype\n(U\x02O8tR\x89]tb.",
        ADDRESS,
        b"cnumpy.core.multiarray\n_reconstruct\n(NNNtRK\x07b.",
        b"cnumpy.core.multiarray\n_reconstruct\n)Rb.",
        b"cnumpy\nndarray\n)R.",
        b"cnumpy\ndtype\n]R.",
        b"}(K\x01K\x02u.",
        b"}(U\x01au.",
        b"}U\x01aK\x01e.",
        b"h\x05.",
        b"t.",
        b"(q\x00.",
        b"T\xff\xff\xff\xff.",
        b"T\xff\xff\xff\x7fabc.",
        b"]q\x00.",
        b"\x80\x02}",
        b"",
        b"\xff" * 100,
    ],
)
def test_crafted_pickles_are_one_clear_line(crafted, tmp_path):
    path = tmp_path / "batch"
    path.write_bytes(crafted)
    with pytest.raises(MocaError, match=r"is not a CIFAR file"):
        unpickle(path)


def test_remembered_values_and_single_entries_are_read(tmp_path):
    (tmp_path / "batch").write_bytes(b"\x80\x02}q\x00U\x01aq\x01]r\x00\x01\x00\x00h\x01aj\x01\x00\x00\x00as.")
    assert unpickle(tmp_path / "batch") == {"a": ["a", "a"]}
