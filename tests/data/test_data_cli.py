import pytest

from moca.cli.data import app
from moca.cli.parts import about
from moca.data import load
from moca.errors import MocaError
from moca.generator.store import place_of
from moca.locking import lock
from tests.data import made


def moca_data(*arguments):
    return app([*map(str, arguments)], result_action="return_value", exit_on_error=False, print_error=False)


def test_add_list_check_show_remove(tmp_path, capsys):
    source = made.folder(tmp_path / "flowers", made.small_set(), ["iris", "lily", "rose"])
    moca_data("add", "flowers", "--from", source)
    assert "flowers: 12 training and 6 test images of 3 classes, 8x8x3, from image folder" in capsys.readouterr().out
    moca_data("ls")
    out = capsys.readouterr().out
    assert "(moca data add cifar100)\n" in out and "(moca data add miniimagenet --from PATH)\n" in out
    assert "flowers" in out and "digits" in out and f"store: {tmp_path / 'store'}" in out
    assert moca_data("check", "flowers") == 0
    assert "as stored: yes" in capsys.readouterr().out
    moca_data("show", "flowers", "--out", tmp_path / "f.png", "--tasks", 3)
    assert (tmp_path / "f.png").is_file() and "iris" in capsys.readouterr().out
    moca_data("rm", "flowers")
    assert "removed: flowers" in capsys.readouterr().out


def test_the_list_says_where_data_of_the_user_came_from(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.chdir(tmp_path)
    source = made.folder(tmp_path / "flowers", made.small_set())
    moca_data("add", "mine", "--from", "flowers")
    load("flowers")
    capsys.readouterr()
    moca_data("ls")
    assert capsys.readouterr().out.count("image folder flowers") == 2
    monkeypatch.chdir(tmp_path / "flowers" / "train")
    moca_data("ls")
    assert capsys.readouterr().out.count(f"image folder {source}") == 2


def test_a_damaged_set_ends_with_status_one(known_set, tmp_path, store_dir, capsys):
    moca_data("add", "little", "--from", made.npz(tmp_path / "a.npz", known_set))
    assert "complete and right" in capsys.readouterr().out
    path = next(store_dir.rglob("test_labels.npy"))
    raw = bytearray(path.read_bytes())
    raw[-8] = 0
    path.write_bytes(raw)
    assert moca_data("check", "little") == 1
    out = capsys.readouterr().out
    assert (
        "as stored: NO" in out and "relabelled: image 5 of the stored test images (test, 'ant', should be 'cat')" in out
    )


@pytest.mark.parametrize(("name", "at"), [(".", "flowers"), ("..", "flowers/train"), ("train/..", "flowers")])
def test_the_picture_of_this_folder_has_its_name(name, at, tmp_path, monkeypatch):
    made.folder(tmp_path / "flowers", made.small_set())
    monkeypatch.chdir(tmp_path / at)
    moca_data("show", name)
    assert (tmp_path / at / "flowers.png").is_file()


def test_one_damaged_set_leaves_the_lists_as_they_are(tmp_path, store_dir, capsys, monkeypatch):
    for seed, name in enumerate(("mine", "other")):
        moca_data("add", name, "--from", made.npz(tmp_path / f"{seed}.npz", made.small_set(seed=seed)))
    (store_dir / "names" / "mine.json").write_text("{")
    capsys.readouterr()
    moca_data("ls")
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [row[:2] for row in rows if row[:1] in (["mine"], ["other"])] == [["mine", "damaged:"], ["other", "3"]]
    assert about("mine")[0].use == "Damaged; remove it with: moca data rm mine"
    assert about("other")[0].use.startswith("Learn it: ")
    monkeypatch.setattr("moca.cli.parts.listing", lambda: pytest.fail("a learner is no data set"))
    assert [one.kind for one in about("er")] == ["learner"]


def test_a_wrong_copy_is_listed_image_by_image(known_set, tmp_path, capsys):
    x, *rest = known_set
    with pytest.raises(MocaError, match=r"this is not Little as published"):
        moca_data("add", "little", "--from", made.npz(tmp_path / "a.npz", (x ^ (np_first(x)), *rest)))
    assert "wrong: image 0 of" in capsys.readouterr().out


def np_first(x):
    """A mask that changes one pixel of the first image."""
    mask = x * 0
    mask[0, 0, 0, 0] = 1
    return mask


def test_images_left_out_are_said(tmp_path, capsys):
    source = made.folder(tmp_path / "a", made.small_set(train=5))
    for number in range(25):
        (source / "train" / "class1" / f"bad{number}.png").write_text("hello")
    moca_data("add", "mine", "--from", source, "--skip-bad")
    out = capsys.readouterr().out
    assert "note: 25 unreadable images left out" in out and "bad0.png: not an image of a known format" in out
    assert out.count("left out: ") == 20 and "  and 5 more\n" in out


def test_the_store_can_be_moved_by_an_option(tmp_path, capsys):
    source = made.npz(tmp_path / "a.npz", made.small_set())
    moca_data("add", "mine", "--from", source, "--data-dir", tmp_path / "elsewhere")
    moca_data("ls", "--data-dir", tmp_path / "elsewhere")
    assert "mine" in capsys.readouterr().out and (tmp_path / "elsewhere" / "names" / "mine.json").is_file()


def test_the_generator_of_a_set_goes_with_its_last_name(tmp_path, store_dir, capsys):
    data = made.small_set()
    for name, content in (("mine", data), ("twin", data), ("other", made.small_set(seed=1))):
        moca_data("add", name, "--from", made.npz(tmp_path / f"{name}.npz", content))
    kept = {name: place_of(load(name)) for name in ("mine", "twin", "other")}
    assert kept["mine"] == kept["twin"] != kept["other"]
    kept["mine"].parent.mkdir()
    for path in kept.values():
        path.touch(), path.with_name(f"{path.stem}-wide.pt").touch(), path.with_suffix(".lock").touch()
    capsys.readouterr()
    moca_data("rm", "mine")
    assert (capsys.readouterr().out, kept["twin"].exists()) == ("removed: mine\n", True)
    with lock(kept["twin"].with_suffix(".lock")), pytest.raises(MocaError, match="being trained by another process"):
        moca_data("rm", "twin")
    moca_data("rm", "twin")
    assert capsys.readouterr().out == "removed: twin, and the generator of its images\n"
    assert {path.stem.removesuffix("-wide") for path in kept["other"].parent.iterdir()} == {kept["other"].stem}
    next(store_dir.glob("sets/*/train_images.npy")).write_bytes(b"damaged")
    moca_data("rm", "other")
    assert capsys.readouterr().out == "removed: other\n"
