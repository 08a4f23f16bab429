import io
import os
import stat
import tarfile
import zipfile

import pytest

from moca.data import add, decompression
from moca.data.archive import extract, is_archive
from moca.errors import MocaError
from tests.data import made


def member(name, kind=tarfile.REGTYPE, link="", size=0):
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname, entry.size = kind, link, size
    return entry


def tar_of(path, *entries):
    with tarfile.open(path, "w:gz") as out:
        for entry in entries:
            out.addfile(entry, io.BytesIO(b"x" * entry.size) if entry.isreg() else None)
    return path


HOSTILE = {
    "parent": member("../escaped", size=1),
    "deep parent": member("a/../../escaped", size=1),
    "symbolic link": member("link", tarfile.SYMTYPE, "/etc/passwd"),
    "link to a parent": member("link", tarfile.SYMTYPE, "../escaped"),
    "hard link": member("link", tarfile.LNKTYPE, "/etc/passwd"),
    "character device": member("device", tarfile.CHRTYPE),
    "block device": member("device", tarfile.BLKTYPE),
    "pipe": member("pipe", tarfile.FIFOTYPE),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_tars_that_leave_the_folder_or_hold_devices_are_refused(kind, tmp_path):
    path = tar_of(tmp_path / "a.tar.gz", member("good", size=1), HOSTILE[kind])
    with pytest.raises(MocaError, match=r"is refused: .*; extract it yourself if you trust it") as error:
        extract(path, tmp_path / "deep" / "out")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "deep" / "escaped").exists() and not (tmp_path / "escaped").exists()


def test_a_link_then_a_file_through_it_writes_nothing_outside(tmp_path):
    (tmp_path / "outside").mkdir()
    link = member("dir", tarfile.SYMTYPE, str(tmp_path / "outside"))
    path = tar_of(tmp_path / "a.tar.gz", link, member("dir/file", size=1))
    with pytest.raises(MocaError, match=r"'dir' is a link to an absolute path"):
        extract(path, tmp_path / "out")
    assert list((tmp_path / "outside").iterdir()) == []


@pytest.mark.parametrize("name", ["../escaped", "{}/escaped", "a/../../escaped"])
def test_zips_stay_in_their_folder(name, tmp_path):
    path, outside = tmp_path / "a.zip", tmp_path / "deep"
    with zipfile.ZipFile(path, "w") as out:
        out.writestr(name.format(outside), "x")
    extract(path, outside / "out")
    assert not (outside / "escaped").exists()


def test_an_absolute_name_in_a_tar_stays_in_its_folder(tmp_path):
    path = tar_of(tmp_path / "a.tar.gz", member(str(tmp_path / "escaped"), size=1))
    extract(path, tmp_path / "out")
    assert not (tmp_path / "escaped").exists()


def test_a_link_in_a_zip_is_no_link_when_it_is_extracted(tmp_path):
    path = tmp_path / "a.zip"
    entry = zipfile.ZipInfo("link")
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(path, "w") as out:
        out.writestr(entry, "/etc/passwd")
    extract(path, tmp_path / "out")
    assert not (tmp_path / "out" / "link").is_symlink()


def test_a_file_where_a_folder_should_be_is_one_clear_line(tmp_path):
    path = tar_of(tmp_path / "b.tar.gz", member("a", size=1), member("a/b", size=1))
    with pytest.raises(MocaError, match=r"cannot be extracted"):
        extract(path, tmp_path / "out")


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_bombs_are_refused(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(decompression, "_SMALL", 1 << 20)
    path = tmp_path / "bomb"
    if kind == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
            out.writestr("zeros", bytes(16 << 20))
    else:
        with tarfile.open(path, "w:gz") as out:
            out.addfile(member("zeros", size=16 << 20), io.BytesIO(bytes(16 << 20)))
    with pytest.raises(MocaError, match=r"it grows to more than 100 times its size"):
        extract(path, tmp_path / "out")


@pytest.mark.parametrize("kind", ["zip", "w", "w:gz", "w:xz"])
def test_truncated_archives_are_one_clear_line_and_change_nothing(kind, tmp_path, store_dir):
    source = made.folder(tmp_path / "s", made.small_set(train=20))
    path = tmp_path / "a.bin"
    if kind == "zip":
        with zipfile.ZipFile(path, "w") as out:
            for file in source.rglob("*.png"):
                out.write(file, file.relative_to(source))
    else:
        made.tar(path, source, kind)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(
        MocaError, match=r"cannot be extracted|holds no data set" if kind == "zip" else r"cannot be extracted"
    ):
        add("mine", path)
    assert not (store_dir / "names").exists()


def test_a_flipped_byte_in_a_zip(tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as out:
        out.writestr("file", b"x" * 1000)
    raw = bytearray(path.read_bytes())
    raw[500] ^= 255
    path.write_bytes(raw)
    with pytest.raises(MocaError, match=r"cannot be extracted"):
        extract(path, tmp_path / "out")


def test_what_is_an_archive(tmp_path):
    (tmp_path / "text").write_text("hello")
    assert not is_archive(tmp_path / "text") and not is_archive(tmp_path)
    assert is_archive(tar_of(tmp_path / "a.tar.gz", member("a", size=1)))


def test_messages_name_the_archive_and_not_the_place_it_was_extracted_into(tmp_path):
    source = made.cifar10_python(tmp_path / "cifar-10-batches-py", made.small_set(side=32, train=5))
    (source / "data_batch_2").write_bytes(b"nothing")
    path = made.tar(tmp_path / "cifar.tar.gz", source)
    with pytest.raises(MocaError) as error:
        add("mine", path)
    assert f"cifar.tar.gz:cifar-10-batches-py{os.sep}data_batch_2" in str(error.value)
    assert "extracted" not in str(error.value)


@pytest.mark.parametrize("cut", [1, 8, 512, 1024])
@pytest.mark.parametrize("kind", ["w:gz", "w:bz2", "w:xz"])
def test_an_archive_without_its_last_bytes_is_noticed(kind, cut, tmp_path):
    path = made.tar(tmp_path / "a.bin", made.folder(tmp_path / "s", made.small_set(train=20)), kind)
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(MocaError, match=r"cannot be extracted"):
        extract(path, tmp_path / "out")


def test_a_plain_tar_cut_between_two_files_is_noticed(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as out:
        out.addfile(member("a", size=512), io.BytesIO(bytes(512)))
        end = out.offset
        out.addfile(member("b", size=512), io.BytesIO(bytes(512)))
    (tmp_path / "a.tar").write_bytes((tmp_path / "a.tar").read_bytes()[:end])
    with pytest.raises(MocaError, match=r"it has no end"):
        extract(tmp_path / "a.tar", tmp_path / "out")


@pytest.mark.parametrize("name", ["x" * 400, "/".join(["y" * 200] * 30), "a\x1b[31m" + "z" * 400])
@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_a_name_that_no_disk_takes_is_one_clear_line(kind, name, tmp_path):
    path = tmp_path / "a.bin"
    if kind == "tar":
        tar_of(path, member(name, size=1))
    else:
        with zipfile.ZipFile(path, "w") as out:
            out.writestr(name, "x")
    with pytest.raises(MocaError, match=r"cannot be extracted \(File name too long\)") as error:
        extract(path, tmp_path / "out")
    assert str(error.value).isprintable() and len(str(error.value)) < 300
