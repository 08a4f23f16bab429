import errno
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from moca.data import Store, add, check, listing, load, remove
from moca.data.store import default_directory
from moca.data.store_failures import failures_told
from moca.errors import MocaError
from tests.data.made import npz, small_set


def files(directory):
    return sorted(str(p.relative_to(directory)) for p in directory.rglob("*") if p.is_file())


def test_a_set_comes_back_as_it_went_in(tmp_path):
    x, y, tx, ty = data = small_set()
    add("mine", npz(tmp_path / "a.npz", data))
    dataset = load("mine")
    assert dataset.train.images.shape == (12, 3, 8, 8) and dataset.shape == (3, 8, 8)

    def pairs(images, labels):
        return sorted((int(label), image.tobytes()) for image, label in zip(images, labels, strict=True))

    assert pairs(dataset.train.images.permute(0, 2, 3, 1).numpy(), dataset.train.labels) == pairs(x, y)
    assert pairs(dataset.test.images.permute(0, 2, 3, 1).numpy(), dataset.test.labels) == pairs(tx, ty)


def test_the_same_images_in_another_order_are_the_same_files(tmp_path, store_dir):
    x, y, tx, ty = data = small_set()
    order = np.random.default_rng(5).permutation(len(y))
    first = add("one", npz(tmp_path / "a.npz", data)).info
    second = add("two", npz(tmp_path / "b.npz", (x[order], y[order], tx, ty))).info
    assert first == second
    assert len(list((store_dir / "sets").iterdir())) == 1


def test_statistics_are_exact(tmp_path):
    x, y, tx, ty = small_set()
    info = add("mine", npz(tmp_path / "a.npz", (x, y, tx, ty))).info
    values = x.astype(np.float64) / 255
    np.testing.assert_allclose(info.mean, values.mean((0, 1, 2)), rtol=1e-12)
    np.testing.assert_allclose(info.std, values.std((0, 1, 2)), rtol=1e-10)


def test_opening_maps_and_never_writes_back(tmp_path, store_dir):
    add("mine", npz(tmp_path / "a.npz", small_set()))
    path = next(store_dir.rglob("train_images.npy"))
    before = path.read_bytes()
    images = load("mine").train.images
    assert isinstance(Store().arrays("mine")["train_images"], np.memmap)
    images.zero_()
    assert path.read_bytes() == before


def test_a_name_given_again_drops_what_nobody_means(tmp_path, store_dir):
    add("mine", npz(tmp_path / "a.npz", small_set()))
    add("mine", npz(tmp_path / "b.npz", small_set(seed=3)))
    assert len(list((store_dir / "sets").iterdir())) == 1


def test_two_names_share_images_until_both_are_removed(tmp_path, store_dir):
    source = npz(tmp_path / "a.npz", small_set())
    add("one", source)
    add("two", source)
    store = Store()
    store.remove("one")
    assert list(store) == ["two"] and len(list((store_dir / "sets").iterdir())) == 1
    store.remove("two")
    assert list(store) == [] and list((store_dir / "sets").iterdir()) == []


def test_a_failure_leaves_nothing_behind(tmp_path, store_dir, monkeypatch):
    source = npz(tmp_path / "a.npz", small_set())

    def broken(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("moca.data.adding.write_arrays", broken)
    with pytest.raises(KeyboardInterrupt):
        add("mine", source)
    assert files(store_dir) == ["lock"]


def test_a_full_disk_is_one_line_and_changes_nothing(tmp_path, store_dir, monkeypatch):
    add("old", npz(tmp_path / "a.npz", small_set()))
    before = files(store_dir)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("moca.data.adding.write_arrays", full)
    with pytest.raises(MocaError, match=r"is full; free some room, or move the store"):
        add("new", npz(tmp_path / "b.npz", small_set(seed=4)))
    assert files(store_dir) == before


def test_a_store_that_cannot_be_written_is_one_line(tmp_path):
    with pytest.raises(MocaError, match=r"cannot write in .* move the store"), failures_told(tmp_path):
        raise PermissionError(errno.EACCES, "Permission denied", str(tmp_path / "tmp"))


def test_a_store_that_is_a_file_is_one_line(tmp_path):
    (tmp_path / "file").write_text("mine")
    for place in (tmp_path / "file", tmp_path / "file" / "store"):
        with pytest.raises(MocaError, match=r"cannot write in .* move the store"):
            add("new", npz(tmp_path / "b.npz", small_set()), data_dir=place)
    assert (tmp_path / "file").read_text() == "mine"


KILLED = """
import sys, time
from moca.data import adding
def slow(*_):
    print("writing", flush=True)
    time.sleep(60)
adding.write_arrays = slow
adding.add("mine", sys.argv[1])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_what_a_killed_process_left_is_swept_by_the_next(tmp_path, store_dir):
    source = npz(tmp_path / "a.npz", small_set())
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    child = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(source)], stdout=subprocess.PIPE, env=environment, text=True
    )
    assert child.stdout.readline() == "writing\n"
    child.send_signal(signal.SIGKILL)
    child.communicate()
    assert any(p.name == "train.raw" for p in store_dir.rglob("*")) and "mine" not in Store()
    add("mine", source)
    assert list((store_dir / "tmp").iterdir()) == []


def test_a_workspace_in_use_is_not_swept(tmp_path, store_dir):
    with Store().workspace() as work:
        add("mine", npz(tmp_path / "a.npz", small_set()))
        assert work.is_dir()


TOGETHER = "import sys; from moca.data import add; add('mine', sys.argv[1])"


def test_two_processes_adding_the_same_data_agree(tmp_path):
    source = npz(tmp_path / "a.npz", small_set(train=50))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    children = [subprocess.Popen([sys.executable, "-c", TOGETHER, str(source)], env=environment) for _ in range(3)]
    assert [child.wait() for child in children] == [0, 0, 0]
    assert len(load("mine").train) == 150


def test_opening_is_quick(tmp_path):
    add("mine", npz(tmp_path / "a.npz", small_set()))
    load("mine")
    times = []
    for _ in range(5):
        start = time.perf_counter()
        load("mine")
        times.append(time.perf_counter() - start)
    assert min(times) < 0.05


def test_a_damaged_copy_says_what_to_do(tmp_path, store_dir):
    add("mine", npz(tmp_path / "a.npz", small_set()))
    next(store_dir.rglob("train_images.npy")).write_bytes(b"")
    with pytest.raises(MocaError, match=r"stored copy of 'mine' cannot be read .* remove it and add it again"):
        load("mine")


@pytest.mark.parametrize("damage", ["flipped", "cut", "gone"])
@pytest.mark.parametrize("name", ["train_images.npy", "test_labels.npy", "set.json"])
def test_adding_a_set_again_mends_it(name, damage, tmp_path, store_dir):
    source = npz(tmp_path / "a.npz", small_set())
    add("mine", source)
    before = {path: (path.read_bytes(), path.stat().st_ino) for path in (store_dir / "sets").rglob("*.*")}
    victim = next(store_dir.rglob(name))
    raw = bytearray(victim.read_bytes())
    raw[-3] ^= 1
    victim.unlink() if damage == "gone" else victim.write_bytes(raw if damage == "flipped" else raw[:20])
    assert not add("mine", source).replaces
    assert check("mine").intact
    after = {path: (path.read_bytes(), path.stat().st_ino) for path in (store_dir / "sets").rglob("*.*")}
    assert {path: raw for path, (raw, _) in before.items()} == {path: raw for path, (raw, _) in after.items()}
    assert all(before[path] == after[path] for path in before if path != victim), "what is right stays as it is"


NO_NAMES = ["", "{", "[]", "7", "{}", '{"address": 7}', "\udce9"]


@pytest.mark.parametrize("content", NO_NAMES)
def test_a_damaged_name_is_listed_added_anew_and_removed(content, tmp_path, store_dir):
    one, other = (npz(tmp_path / f"{seed}.npz", small_set(seed=seed)) for seed in range(2))
    add("mine", one)
    add("other", other)
    name = store_dir / "names" / "mine.json"

    def damage():
        name.write_bytes(content.encode(errors="surrogateescape"))

    damage()
    assert {listed.name: listed.state for listed in listing()}["mine"] == "damaged"
    for call in (load, check):
        with pytest.raises(MocaError, match="add it again"):
            call("mine")
    remove("other")
    assert len(list((store_dir / "sets").iterdir())) == 2, "the damaged name may mean these images, too"
    assert not add("mine", one).replaces and check("mine").intact
    damage()
    remove("mine")
    assert list(Store()) == [] and not name.exists()


@pytest.mark.parametrize("content", ["", "[]", "7", '{"format": 1}', '{"format": 1, "x": 2}', '{"format": 2}'])
def test_a_damaged_set_is_listed_and_removed(content, tmp_path, store_dir):
    add("mine", npz(tmp_path / "a.npz", small_set()))
    next(store_dir.rglob("set.json")).write_text(content)
    listed = {one.name: one for one in listing()}
    assert listed["mine"].state == "damaged" and "remove it and add it again" in listed["mine"].title
    assert listed["digits"].state == "embedded"
    remove("mine")
    assert list((store_dir / "sets").iterdir()) == []


def test_the_directory_can_be_moved(tmp_path, monkeypatch):
    assert default_directory() == tmp_path / "store"
    monkeypatch.delenv("MOCA_DATA")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "xdg"))
    if sys.platform == "linux":
        assert default_directory() == tmp_path / "xdg" / "moca"
    add("mine", npz(tmp_path / "a.npz", small_set()), data_dir=tmp_path / "elsewhere")
    assert load("mine", data_dir=tmp_path / "elsewhere").name == "mine"


def test_names_record_where_the_data_came_from(tmp_path, store_dir):
    source = npz(tmp_path / "a.npz", small_set())
    add("mine", source)
    assert json.loads((store_dir / "names" / "mine.json").read_text())["source"] == str(source)


def test_a_set_of_another_version_says_what_to_do(tmp_path, store_dir):
    add("mine", npz(tmp_path / "a.npz", small_set()))
    about = next(store_dir.rglob("set.json"))
    about.write_text(about.read_text().replace('"format": 1', '"format": 99'))
    with pytest.raises(MocaError, match=r"stored by another version of moca; remove it and add it again"):
        load("mine")
