import numpy as np

from moca.data import add, load
from moca.data.duplicates import repeats
from moca.data.fingerprint import Contents, image_digests
from tests.data import made
from tests.data.test_data_cli import moca_data


def notes(x, y, tx, ty):
    contents = Contents(np.asarray(y), image_digests(x), np.asarray(ty), image_digests(tx))
    return repeats(contents, ("ant", "bee", "cat"), lambda place: f"{place.split} {place.index}")


def test_each_kind_is_counted_with_an_example():
    x, tx = made.pictures(9), made.pictures(6, seed=1)
    y, ty = [0, 1, 2] * 3, [0, 1, 2] * 2
    assert notes(x, y, tx, ty) == []
    x[3] = x[0]
    assert notes(x, y, tx, ty) == [], "an image twice in its own class does no harm"
    x[4] = x[0]
    assert notes(x, y, tx, ty) == ["1 image under more than one label, for example train 3 ('ant') and train 4 ('bee')"]
    tx[1] = x[7]
    tx[2] = x[8]
    tx[5] = x[8]
    assert notes(x, y, tx, ty)[1] in (
        "2 images in both the training and the test set, for example train 7 ('bee') and test 1 ('bee')",
        "2 images in both the training and the test set, for example train 8 ('cat') and test 2 ('cat')",
    )


def test_an_image_of_two_classes_in_two_splits_is_both():
    x, tx = made.pictures(3), made.pictures(3, seed=1)
    tx[1] = x[0]
    found = notes(x, [0, 1, 2], tx, [0, 1, 2])
    assert [note.split(",")[0] for note in found] == [
        "1 image under more than one label",
        "1 image in both the training and the test set",
    ]


def test_adding_says_it_and_a_run_can(tmp_path, capsys):
    x, y, tx, ty = made.small_set()
    first, other = np.flatnonzero(y == 0)[0], np.flatnonzero(y == 1)[0]
    x[other] = x[first]
    source = made.folder(tmp_path / "a", (x, y, tx, ty))
    moca_data("add", "mine", "--from", source)
    pair = f"{source}/train/class0/{first:04d}.png ('class0') and {source}/train/class1/{other:04d}.png ('class1')"
    note = f"1 image under more than one label, for example {pair}"
    assert f"note: {note}\n" in capsys.readouterr().out
    assert load("mine").notes == (note,) == load(source).notes


def test_a_published_set_is_taken_as_it_is(known_set, tmp_path, monkeypatch):
    monkeypatch.setattr("moca.data.adding.repeats", lambda *_: ["noted"])
    assert add("little", made.npz(tmp_path / "a.npz", known_set)).info.notes == ()
    assert add("mine", made.npz(tmp_path / "b.npz", made.small_set(seed=5))).info.notes == ("noted",)


def test_notes_are_those_of_the_last_import(tmp_path, monkeypatch):
    add("mine", made.npz(tmp_path / "a.npz", made.small_set()))
    monkeypatch.setattr("moca.data.adding.repeats", lambda *_: ["noted"])
    add("mine", tmp_path / "a.npz")
    assert load("mine").notes == ("noted",)
