"""Sources that are no folder of plain files: each is one line that says what to do, at once."""

import os
import socket
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from moca.data import add, load, stamp
from moca.data.loading import placed
from moca.errors import MocaError
from tests.data import made

posix = pytest.mark.skipif(sys.platform == "win32", reason="pipes, links and names of bytes")


@pytest.fixture
def source(tmp_path):
    return made.folder(tmp_path / "a", made.small_set(train=5))


def open_pipe(path):
    os.mkfifo(path)


def open_socket(path):
    here = Path.cwd()
    os.chdir(path.parent)  # the name of a socket is short
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(path.name)
    os.chdir(here)


@posix
@pytest.mark.parametrize("make", [open_pipe, open_socket])
def test_a_pipe_among_the_images_is_named_and_can_be_left_out(make, source):
    make(source / "train" / "class1" / "zz.png")
    for take in (lambda: add("mine", source), lambda: load(source)):
        with pytest.raises(MocaError, match=r"zz.png: a pipe, socket or device, not a file; .*skip_bad=True"):
            take()
    assert add("mine", source, skip_bad=True).info.train == (5, 5, 5)


@posix
@pytest.mark.parametrize("name", ["a.npz", "a.zip", "a.parquet", "a"])
def test_a_pipe_as_the_source_is_refused(name, tmp_path):
    os.mkfifo(tmp_path / name)
    for take in (lambda: add("mine", tmp_path / name), lambda: load(tmp_path / name)):
        with pytest.raises(MocaError, match=r"is a pipe, socket or device; give a folder of images"):
            take()


@posix
@pytest.mark.parametrize("name", ["train_labels.npy", "test-0.parquet", "t10k-images-idx3-ubyte", "test_batch"])
def test_a_pipe_under_any_readers_name_does_not_wait(name, tmp_path):
    data = made.small_set(side=32, train=5)
    place = tmp_path / "s"
    if name.endswith("npy"):
        place.mkdir()
        np.save(place / "train_images.npy", data[0])
    elif name.endswith("parquet"):
        pytest.importorskip("pyarrow")
        made.parquet(place, data, ["ant", "bee", "cat"])
    elif name == "test_batch":
        (made.cifar10_python(place, data) / name).unlink()
    else:
        (made.idx(place, made.small_set(channels=1)) / name).unlink()
    os.mkfifo(place / name)
    try:
        add("mine", place)
    except MocaError as error:
        assert "\n" not in str(error)


@posix
def test_names_that_are_not_utf8_are_spelt_out(source, tmp_path):
    odd = b"caf\xe9"
    for split in ("train", "test"):
        (source / split / "class1").rename(source / split / os.fsdecode(odd))
    assert load(source).classes == ("caf\\udce9", "class0", "class2")
    (source / "train" / os.fsdecode(odd) / "bad.png").write_text("x")
    with pytest.raises(MocaError, match=r"train/caf\\udce9/bad.png: not an image") as error:
        add("mine", source)
    assert str(error.value).encode()
    whole = source.rename(tmp_path / os.fsdecode(odd))
    for take in (load, placed):
        with pytest.raises(MocaError, match=r"caf\\udce9' is not written in UTF-8; rename the folder"):
            take(whole)


def test_an_encrypted_zip_says_so(source, tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as out:
        for file in source.rglob("*.png"):
            out.write(file, file.relative_to(source))
    raw = bytearray(path.read_bytes())
    for mark, offset in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        at = raw.find(mark)
        while at >= 0:
            raw[at + offset] |= 1
            at = raw.find(mark, at + 1)
    path.write_bytes(raw)
    with pytest.raises(MocaError, match=r"a.zip cannot be extracted \(.* is encrypted, .*extract it yourself and pass"):
        add("mine", path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"train_images": np.array([{}], object)}, "'train_images' in .* holds Python objects, .* images .* as uint8"),
        ({"classes": np.array(["a", "b", "c"], object)}, "'classes' in .* holds Python objects, .* names as str"),
        ({"train_labels": np.int64(3)}, r"'train_labels' in .* has the shape \(\); there must be one entry"),
        ({"train_images": np.asfortranarray(made.pictures())}, "'train_images' in .* Fortran .* np.ascontiguousarray"),
    ],
)
def test_arrays_that_are_whole_are_not_said_to_be_cut_short(change, message, tmp_path):
    keys = ("train_images", "train_labels", "test_images", "test_labels")
    np.savez(tmp_path / "a.npz", **{**dict(zip(keys, made.small_set(), strict=True)), **change})
    with pytest.raises(MocaError, match=message) as error:
        add("mine", tmp_path / "a.npz")
    assert "cut short" not in str(error.value)


@posix
def test_broken_links_say_which_and_what_to_do(source, tmp_path):
    (source / "notes").symlink_to(tmp_path / "nothing")
    (source / "train" / "class0" / "notes.txt").symlink_to(tmp_path / "nothing")
    assert len(load(source).train) == 15, "links that nobody reads do no harm"
    (source / "train" / "zebra").symlink_to(tmp_path / "nothing")
    for take in (lambda: add("mine", source), lambda: load(source)):
        with pytest.raises(MocaError, match=r"train/zebra is a link to something that does not exist; mend it"):
            take()
    (tmp_path / "link").symlink_to(tmp_path / "nothing")
    for take in (lambda: add("mine", tmp_path / "link"), lambda: load(tmp_path / "link")):
        with pytest.raises(MocaError, match=r"link is a link to something that does not exist; mend the link"):
            take()


@posix
def test_links_to_themselves_are_one_line(source):
    loop = source / "train" / "class0" / "loop.png"
    loop.symlink_to(loop)
    for take in (lambda: add("mine", source), lambda: load(source)):
        with pytest.raises(MocaError, match=r"loop.png: Too many levels of symbolic links; mend it, or leave it out"):
            take()


@posix
def test_links_to_folders_elsewhere_are_followed(source, tmp_path):
    (source / "train" / "class1").rename(tmp_path / "elsewhere")
    (source / "train" / "class1").symlink_to(tmp_path / "elsewhere")
    assert add("mine", source).info.train == (5, 5, 5)


@pytest.mark.parametrize("where", ["home", "above", "root"])
def test_a_home_folder_and_the_whole_disk_are_refused_before_any_walk(where, source, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(source))
    monkeypatch.setenv("USERPROFILE", str(source))
    path = {"home": source, "above": tmp_path, "root": Path(tmp_path.anchor)}[where]
    scan = os.scandir
    monkeypatch.setattr("os.scandir", lambda at: pytest.fail("it was walked") if str(at) == str(path) else scan(at))
    for take in (lambda: add("mine", path), lambda: load(path), lambda: load("~" if where == "home" else str(path))):
        with pytest.raises(MocaError, match=r"(home folder|whole disk).*; give the folder that holds the classes"):
            take()


def test_folders_that_are_no_classes_are_not_told_to_hold_images(tmp_path):
    for name in ("bin", "lib", "share", "include"):
        (tmp_path / "usr" / name).mkdir(parents=True)
    (tmp_path / "usr" / "share" / "icon.png").write_bytes(made.png(made.pictures(1)[0]))
    with pytest.raises(MocaError, match=r"only 1 of the 4 folders in .*usr hold images; give the folder that has one"):
        load(tmp_path / "usr")


def test_a_folder_without_data_is_refused_before_all_its_files_are_listed(tmp_path, source, monkeypatch):
    (tmp_path / "empty").mkdir()
    monkeypatch.setattr(stamp, "_listing", lambda path: pytest.fail("listed"))
    with pytest.raises(MocaError, match=r"holds no data set that moca recognises"):
        load(tmp_path / "empty")
    monkeypatch.undo()
    monkeypatch.setattr(stamp, "_FILES", 20)
    with pytest.raises(MocaError, match=r"holds more than 20 files; give the folder that holds the classes"):
        load(source)


@pytest.mark.parametrize("name", ["", "  "])
def test_no_name_does_not_mean_this_folder(name, source, monkeypatch):
    monkeypatch.chdir(source)
    for take in (load, placed):
        with pytest.raises(MocaError, match=r"the data set has no name; give one of moca data ls, or a folder"):
            take(name)
    with pytest.raises(MocaError, match=r"source= is empty; give a folder"):
        add("mine", name)
    assert len(load(".").train) == 15


def test_a_name_that_no_disk_takes_is_unknown():
    with pytest.raises(MocaError, match=r"unknown data set 'xxx"):
        load("x" * 5000)
