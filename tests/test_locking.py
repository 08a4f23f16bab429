"""One writer at a time, also while lock files come and go."""

from moca import locking
from moca.locking import lock


def test_one_holder(tmp_path):
    with lock(tmp_path / "lock") as first, lock(tmp_path / "lock", wait=False) as second:
        assert (first, second) == (True, False)
    with lock(tmp_path / "lock", wait=False) as free:
        assert free


def test_a_file_that_was_removed_before_it_could_be_locked_locks_nothing(tmp_path, monkeypatch):
    """Its last holder is done and has removed it; a third one makes it anew and must be alone."""
    path, acquire = tmp_path / "lock", locking._acquire

    def late(file, wait):
        path.unlink()
        acquire(file, wait)

    with monkeypatch.context() as slow:
        slow.setattr(locking, "_acquire", late)
        with lock(path, wait=False) as stale:
            assert not stale
    with lock(path, wait=False) as free:
        assert free
