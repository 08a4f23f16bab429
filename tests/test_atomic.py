"""A file is there whole or not at all, whoever else writes it."""

import pytest

from moca.atomic import whole


def test_two_writers_at_once_leave_what_the_last_one_wrote(tmp_path):
    path = tmp_path / "cost.json"
    with whole(path) as one, whole(path) as other:
        one.write_text("what is longer than that")
        other.write_text("short")
        assert not path.exists()
    assert path.read_text() == "what is longer than that"  # the block that was left last
    assert list(tmp_path.iterdir()) == [path]


def test_what_could_not_be_written_leaves_what_was_there(tmp_path):
    path = tmp_path / "cost.json"
    path.write_text("before")
    with pytest.raises(OSError, match="full"), whole(path) as part:
        part.write_text("ha")
        raise OSError("disk full")
    assert path.read_text() == "before" and list(tmp_path.iterdir()) == [path]
