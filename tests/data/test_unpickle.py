import os
import pickle
import time
import tracemalloc

import numpy as np
import pytest

from moca.data import unpickle as module
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
    with pytest.raises(
        MocaError,
        match=r"is not a CIFAR file .(it (names|uses) .*, which no CIFAR file does|it was written by a later)",
    ):
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
        b"}(U\x06labels]\x8a\x09" + b"\xff" * 8 + b"\x00au.",
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


def limits_of(data, tmp_path):
    """Seconds and peak bytes of refusing a file."""
    (tmp_path / "batch").write_bytes(data)
    tracemalloc.start()
    start = time.perf_counter()
    with pytest.raises(MocaError, match=r"is not a CIFAR file"):
        unpickle(tmp_path / "batch")
    seconds, peak = time.perf_counter() - start, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return seconds, peak


NESTED = b"".join(b"q%ch%ch%c\x86" % (i, i, i) for i in range(40))
"""A pair of pairs of pairs, of which each is the same twice: two to the fortieth to look at."""
SHAPED = b"(K\x01" + b"(" + b"J\xff\xff\xff\x7f" * 100_000 + b"tcnumpy\ndtype\n(U\x02u1tR\x89U\x01atb."


@pytest.mark.parametrize(
    "data",
    [
        b"]r\xff\xff\xff\x0f.",
        b"K\x01" + NESTED + b"}h\x27K\x01s.",
        b"cnumpy.core.multiarray\n_reconstruct\n)R" + b"(K\x01K\x00" + NESTED + b"NNNtb.",
        b"cnumpy.core.multiarray\n_reconstruct\n)R" + SHAPED,
        b"(" * 100_000,
        b"c" + b"x" * 500_000,
    ],
)
def test_a_small_file_takes_neither_memory_nor_time(data, tmp_path):
    seconds, peak = limits_of(data, tmp_path)
    assert seconds < 5 and peak < 32 << 20


def test_too_many_instructions_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_STEPS", 100)
    (tmp_path / "batch").write_bytes(b"(" * 200)
    with pytest.raises(MocaError, match=r"more than 100 instructions"):
        unpickle(tmp_path / "batch")


def test_remembered_values_and_single_entries_are_read(tmp_path):
    (tmp_path / "batch").write_bytes(b"\x80\x02}q\x00U\x01aq\x01]r\x00\x01\x00\x00h\x01aj\x01\x00\x00\x00as.")
    assert unpickle(tmp_path / "batch") == {"a": ["a", "a"]}


def test_what_python_writes_without_new_instructions_is_read(tmp_path):
    made = pickle.dumps({"labels": [1, 2]}, protocol=2).replace(b"X\x06\x00\x00\x00", b"U\x06")
    (tmp_path / "batch").write_bytes(made)
    assert unpickle(tmp_path / "batch") == {"labels": [1, 2]}
