import numpy as np
import pytest

from moca.data import add, catalogue, check, listing, load, remove, show
from moca.data.verification import NotTheSame
from moca.errors import MocaError
from moca.streams import class_incremental
from tests.data import made
from tests.data.made import npz, small_set


def test_a_right_copy_of_a_known_set_gets_its_protocols(known_set, tmp_path):
    added = add("little", npz(tmp_path / "a.npz", known_set))
    assert added.known == "little" and str(added.differences) == "complete and right"
    dataset = load("little")
    assert dataset.classes == ("ant", "bee", "cat")
    assert dataset.protocol.tasks == (1, 1, 1) and dataset.protocol.std == (0.25,) * 3
    assert dataset.using("online").protocol.std == (0.5,) * 3
    assert dataset.order("backwards") == (2, 1, 0) and dataset.order("natural") == (0, 1, 2)
    with pytest.raises(MocaError, match=r"no protocol 'onlin'; did you mean 'online'"):
        dataset.using("onlin")
    with pytest.raises(MocaError, match=r"no class order 'backward'; did you mean 'backwards'"):
        dataset.order("backward")


def test_a_known_set_is_recognised_under_any_name(known_set, tmp_path):
    assert add("other-name", npz(tmp_path / "a.npz", known_set)).known == "little"
    assert load("other-name").classes == ("ant", "bee", "cat")


def test_folders_are_matched_to_classes_by_name(known_set, tmp_path):
    source = made.folder(tmp_path / "a", known_set, ["Ant", "BEE", "c_a-t"])
    assert add("little", source).known == "little"


def test_a_copy_that_differs_is_refused_with_every_image_named(known_set, tmp_path, store_dir):
    x, y, tx, ty = (part.copy() for part in known_set)
    x[0, 0, 0, 0] ^= 1
    source = made.folder(tmp_path / "a", (x, y, tx, ty), ["ant", "bee", "cat"])
    with pytest.raises(NotTheSame, match=r"this is not Little as published: 1 wrong, 1 missing") as error:
        add("little", source)
    name = ["ant", "bee", "cat"][y[0]]
    assert error.value.details == [
        f"wrong: {source / 'train' / name / '0000.png'} (train, '{name}')",
        f"missing: 1 train image of '{name}'",
    ]
    assert not (store_dir / "names").exists()
    added = add("little", source, allow_differences=True)
    assert added.known is None and not added.differences.same
    assert load("little").protocol.tasks == (1, 1, 1)


def test_a_known_set_with_fewer_classes_is_a_set_of_its_own(known_set, tmp_path):
    x, y, tx, ty = known_set
    source = made.folder(tmp_path / "a", (x[y > 0], y[y > 0], tx[ty > 0], ty[ty > 0]), ["ant", "bee", "cat"])
    with pytest.raises(MocaError, match=r"2 classes found \(bee, cat\), 'little' has 3; give its official"):
        add("little", source)
    added = add("little", source, allow_differences=True)
    said = "not Little as published (2 of its 3 classes), so that it has none of its protocols and class orders"
    assert added.info.classes == ("bee", "cat") and added.info.notes[0] == said and added.differences is None
    assert check("little").intact and check("little").differences is None
    assert [task.classes for task in class_incremental(load("little"), 2)] == [(0,), (1,)]
    assert show("little", tmp_path / "a.png", tasks=2).tasks == ((0,), (1,))
    with pytest.raises(MocaError, match=r"no class order 'backwards'"):
        load("little").order("backwards")


def test_a_copy_stored_as_a_known_set_that_it_does_not_fit_is_one_of_its_own(known_set, tmp_path, store_dir):
    x, y, tx, ty = known_set
    add("little", npz(tmp_path / "a.npz", known_set))
    add("mine", npz(tmp_path / "b.npz", (x[y > 0], y[y > 0] - 1, tx[ty > 0], ty[ty > 0] - 1)))
    entry = store_dir / "names" / "mine.json"
    entry.write_text(entry.read_text().replace('"known": ""', '"known": "little"'))
    assert load("mine").orders == {} and check("mine").differences is None


def test_a_set_of_which_copies_differ_must_have_its_classes(known_set, tmp_path):
    whole = catalogue.known("miniimagenet")
    names = [f"animal {number:02d}" for number in range(99)] + [whole.classes[0]]
    source = npz(tmp_path / "a.npz", small_set(classes=100, train=2, test=1), classes=np.array(names))
    with pytest.raises(
        MocaError, match=r"'animal 00' is none of its classes, which are called 'n01532829'.* rename"
    ) as e:
        add("miniimagenet", source)
    assert "\n" not in str(e.value)
    assert "'animal 00' is none" in add("miniimagenet", source, allow_differences=True).info.notes[0]
    assert load("miniimagenet").orders == {} and load("miniimagenet").protocol.class_order == "natural"


def test_missing_duplicated_and_relabelled_images_are_counted(known_set, tmp_path):
    x, y, tx, ty = (part.copy() for part in known_set)
    same = np.flatnonzero(y == 0)
    x[same[0]] = x[same[1]]
    y[np.flatnonzero(y == 1)[0]] = 2
    with pytest.raises(NotTheSame, match=r"1 duplicated, 1 relabelled, 1 missing"):
        add("little", npz(tmp_path / "a.npz", (x, y, tx, ty)))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (small_set(seed=9), "no image agrees: another data set, or its images were resized or compressed again"),
        (small_set(side=16), "has images of 8x8 pixels in colour, these are 16x16 pixels in colour"),
        (small_set(classes=4), "4 classes found, 'little' has 3"),
    ],
)
def test_something_else_under_a_known_name_is_refused(data, message, known_set, tmp_path):
    with pytest.raises(MocaError, match=message):
        add("little", npz(tmp_path / "a.npz", data))


def test_check_finds_a_flipped_bit_in_the_store(known_set, tmp_path, store_dir):
    add("little", npz(tmp_path / "a.npz", known_set))
    assert check("little").intact and check("little").differences.same
    path = next(store_dir.rglob("train_images.npy"))
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)
    result = check("little")
    assert not result.intact and result.differences.counts() == {"wrong": 1, "missing": 1}
    assert result.details[0] == "wrong: image 11 of the stored train images (train, 'cat')"


def test_check_of_a_set_of_ones_own(tmp_path):
    add("mine", npz(tmp_path / "a.npz", small_set()))
    result = check("mine")
    assert result.intact and result.known is None and result.differences is None


@pytest.mark.parametrize("name", ["", "../x", "a/b", "Mine", "-x", "x" * 80, "a b"])
def test_names_that_could_be_paths_are_refused(name, tmp_path):
    with pytest.raises(MocaError, match=r"cannot name a data set"):
        add(name, npz(tmp_path / "a.npz", small_set()))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: add("flowers"), "'flowers' is no known data set, so say where it is with source="),
        (lambda p: add("cifar1o"), "did you mean 'cifar10'"),
        (lambda p: add("digits", p), "'digits' is inside the package"),
        (lambda p: add("mine", p / "nowhere"), "nowhere does not exist"),
        (lambda p: add("mine", p, size=2), "^a size of 2 is out of range"),
        (lambda p: add("mine", p, test_share=1.0), "test_share=1.0 is out of range"),
        (lambda p: add("mine", p, workers=-2), "workers=-2 is out of range"),
        (lambda p: add("mine", p, workers=0), "workers=0 is out of range"),
        (lambda p: add("mine", p, seed=12345678901234567), "seed 12345678901234567 is out of range"),
        (lambda p: check("mine"), "'mine' is not in the store"),
        (lambda p: check("cifar10"), r"add it with: moca.data.add\('cifar10'\)"),
        (lambda p: remove("mine"), "'mine' is not in the store"),
    ],
)
def test_mistakes_are_one_line(call, message, tmp_path):
    with pytest.raises(MocaError, match=message) as error:
        call(tmp_path)
    assert "\n" not in str(error.value)


def test_a_class_without_test_images_is_named(tmp_path):
    x, y, tx, ty = small_set()
    with pytest.raises(MocaError, match=r"class '2' has no test image"):
        add("mine", npz(tmp_path / "a.npz", (x, y, tx[ty < 2], ty[ty < 2])))


def test_listing_and_removing(tmp_path):
    add("mine", npz(tmp_path / "a.npz", small_set()))
    states = {one.name: one.state for one in listing()}
    assert states["mine"] == "stored" and states["digits"] == "embedded"
    assert states["cifar10"] == "moca.data.add('cifar10')"
    assert states["miniimagenet"] == "moca.data.add('miniimagenet', 'PATH')"
    remove("mine")
    assert "mine" not in {one.name for one in listing()}


def test_a_name_that_is_given_to_other_images_says_so(tmp_path):
    first, second = (npz(tmp_path / f"{seed}.npz", small_set(seed=seed)) for seed in range(2))
    assert not add("mine", first).replaces
    assert not add("mine", first).replaces
    assert add("mine", second).replaces


def test_progress_is_told(tmp_path):
    seen = []
    add("mine", npz(tmp_path / "a.npz", small_set()), watch=lambda *at: seen.append(at))
    assert ("reading", 18, 18) in seen and seen[-1] == ("storing", 2, 2)
