import numpy as np
import pytest
from PIL import Image

from moca.data import add, show
from moca.data.sheet import write_sheet
from moca.errors import MocaError
from tests.data import made


def test_the_sheet_shows_every_class_in_its_task(tmp_path):
    x, y, tx, ty = made.small_set(classes=4)
    x[:] = (60 * y)[:, None, None, None]
    add(
        "mine",
        made.npz(tmp_path / "a.npz", (x + np.arange(len(y), dtype=np.uint8)[:, None, None, None] % 4, y, tx, ty)),
    )
    shown = show("mine", tmp_path / "a.png", per_class=3, tasks=2)
    assert shown.tasks == ((0, 1), (2, 3)) and shown.train == (4, 4, 4, 4) and shown.test == (2, 2, 2, 2)
    with Image.open(tmp_path / "a.png") as opened:
        picture = np.asarray(opened)
    for label in range(4):
        assert np.isin(picture[:, :, 0], range(60 * label, 60 * label + 4)).sum() >= 3 * 40 * 40


def test_tasks_follow_the_protocol(known_set, tmp_path):
    add("little", made.npz(tmp_path / "a.npz", known_set))
    assert show("little", tmp_path / "a.png").tasks == ((2,), (1,), (0,))
    assert show("little", tmp_path / "a.png", tasks=1).tasks == ((2, 1, 0),)
    assert show("little", tmp_path / "a.png", tasks=2).tasks == ((2, 1), (0,))
    assert show("little", tmp_path / "a.png", protocol="online").tasks == ((0, 1, 2),), "as a run would"


def test_grey_images_and_embedded_sets(tmp_path):
    show("digits", tmp_path / "digits.png")
    shown = show("digits", tmp_path / "digits.png", tasks=5)  # replaces it
    with Image.open(shown.path) as picture:
        assert len(shown.tasks) == 5 and picture.size[0] > 100


def test_photographs_keep_their_proportions(tmp_path):
    wide = np.zeros((20, 60, 3), np.uint8)
    with Image.open(write_sheet({"": [("photo", [wide])]}, tmp_path / "a.png", per_class=1)) as opened:
        cell = np.asarray(opened.convert("L"))[16:56, 130:170] == 0
    assert cell.any(0).sum() == 40 and cell.any(1).sum() == 13


def test_mistakes(tmp_path):
    for count in (0, -1):
        with pytest.raises(MocaError, match=rf"at least 1 image of each class \(per_class={count}\)"):
            show("digits", tmp_path / "a.png", per_class=count)
    with pytest.raises(MocaError, match=r"'digits' has 10 classes, too few for 11 tasks"):
        show("digits", tmp_path / "a.png", tasks=11)
    with pytest.raises(MocaError, match=r"cannot be written: .*; choose another place for the sheet"):
        show("digits", tmp_path / "nowhere" / "a.png")
    for mine, told in (("a.py", "must end in .png"), ("a.png", "not a picture drawn by moca, so it is kept")):
        (tmp_path / mine).write_text("mine")
        with pytest.raises(MocaError, match=told):
            show("digits", tmp_path / mine)
        assert (tmp_path / mine).read_text() == "mine"


def test_names_are_drawn_in_their_own_letters(tmp_path):
    images = [np.zeros((8, 8, 3), np.uint8)]
    rows = [np.asarray(Image.open(write_sheet({"": [(name, images)]}, tmp_path / "a.png"))) for name in "éßжλ"]
    assert len({row.tobytes() for row in rows}) == 4, "not as boxes, which are all the same"
