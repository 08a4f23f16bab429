"""A file is there whole or not at all, whoever else writes it; why it is not is one line."""

import pytest

from moca import MocaError
from moca.atomic import whole, write, writing


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


def test_a_text_is_written_to_a_folder_that_is_made(tmp_path):
    path = tmp_path / "new" / "folder" / "a.md"
    write(path, "é\udcff", "choose another")
    assert path.read_text(encoding="utf-8") == "é?" and list(path.parent.iterdir()) == [path]


def test_a_full_disk_is_one_line_and_leaves_what_was_there(tmp_path, full_disk):
    path = tmp_path / "a.md"
    path.write_text("before")
    full_disk("a.md")
    with pytest.raises(MocaError) as error:
        write(path, "after", "choose another --out")
    assert str(error.value) == f"'{path}' cannot be written: No space left on device; choose another --out"
    assert path.read_text() == "before" and list(tmp_path.iterdir()) == [path]


def test_what_is_in_the_way_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(MocaError) as error, writing("folder 'x'", "choose another"):
        (tmp_path / "file").mkdir(exist_ok=True)
    assert str(error.value) == f"folder 'x' cannot be written: '{tmp_path / 'file'}' is a file; choose another"
    with pytest.raises(MocaError, match=r"^a cannot be written: broken; choose"), writing("a", "choose another"):
        raise OSError("broken")
