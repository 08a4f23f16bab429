"""One writer at a time, also while lock files come and go."""

import errno
import os
import threading

import pytest

from moca import locking
from moca.errors import MocaWarning
from moca.locking import lock


def test_one_holder(tmp_path):
    with lock(tmp_path / "lock") as first, lock(tmp_path / "lock", wait=False) as second:
        assert (first, second) == (True, False)
    with lock(tmp_path / "lock", wait=False) as free:
        assert free


@pytest.mark.parametrize("wait", [False, True])
def test_a_file_that_was_removed_before_it_could_be_locked_locks_nothing(tmp_path, monkeypatch, wait):
    """Its last holder is done and has removed it: the lock is the next file of that name, and nobody else has it."""
    path, acquire, gone = tmp_path / "lock", locking._acquire, []

    def late(file, *how):
        if not gone:
            gone.append(path.unlink())
        acquire(file, *how)

    monkeypatch.setattr(locking, "_acquire", late)
    with lock(path, wait) as held, lock(path, wait=False) as third:
        assert (held, third) == (True, False)


def test_who_waits_gets_it_when_the_file_is_removed(tmp_path):
    path, order = tmp_path / "lock", []

    def second():
        with lock(path):
            order.append("second")

    with lock(path):
        waiter = threading.Thread(target=second)
        waiter.start()
        waiter.join(0.1)
        order.append("first")
        path.unlink()
    waiter.join()
    assert order == ["first", "second"]


def test_a_file_system_without_locks_is_not_taken_for_another_holder(tmp_path, monkeypatch):
    def none(file, *how):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(locking, "_acquire", none)
    with pytest.raises(OSError, match="No locks"), lock(tmp_path / "lock", wait=False):
        pass
    assert not locking.is_held(tmp_path / "lock")


def test_where_there_are_no_locks_one_process_can_work_all_the_same(tmp_path, monkeypatch):
    def none(file, *how):
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(locking, "_acquire", none)
    with pytest.warns(MocaWarning, match="does not support locks"), lock(tmp_path / "lock", wait=False) as held:
        assert held and not locking.is_held(tmp_path / "lock")


def test_whoever_may_read_the_file_sees_that_it_is_held_and_not_others_who_look(tmp_path, monkeypatch):
    path, opened = tmp_path / "lock", os.open
    with lock(path):
        monkeypatch.setattr(os, "open", lambda path, flags, *mode: opened(path, _refused_to_write(flags), *mode))
        assert locking.is_held(path)
    looking = os.open(path, os.O_RDONLY)
    locking._acquire(looking, wait=False, shared=True)
    assert not locking.is_held(path)
    os.close(looking)


def _refused_to_write(flags):
    if flags & (os.O_RDWR | os.O_WRONLY):
        raise PermissionError(errno.EACCES, "Permission denied")
    return flags


def test_who_looks_whether_it_is_held_keeps_nobody_out(tmp_path):
    """`is_held` takes the lock for a moment."""
    path = tmp_path / "lock"
    looking = os.open(path, os.O_RDWR | os.O_CREAT)
    locking._acquire(looking, wait=False)
    threading.Timer(0.02, os.close, [looking]).start()
    with locking.lock(path, wait=False) as held:
        assert held
