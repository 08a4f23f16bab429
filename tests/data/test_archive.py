import gzip
import io
import os
import stat
import tarfile
import tracemalloc
import zipfile

import pytest

from moca.data import add, archive, decompression
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
    "absolute": member("/tmp/escaped", size=1),
    "backslash": member("..\\escaped", size=1),
    "drive": member("C:escaped", size=1),
    "symbolic link": member("link", tarfile.SYMTYPE, "/etc/passwd"),
    "hard link": member("link", tarfile.LNKTYPE, "/etc/passwd"),
    "character device": member("device", tarfile.CHRTYPE),
    "block device": member("device", tarfile.BLKTYPE),
    "pipe": member("pipe", tarfile.FIFOTYPE),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_tars_that_leave_the_folder_or_hold_links_are_refused(kind, tmp_path):
    path = tar_of(tmp_path / "a.tar.gz", member("good", size=1), HOSTILE[kind])
    with pytest.raises(MocaError, match=r"is refused: .*(leads out of its folder|is a link or device)"):
        extract(path, tmp_path / "deep" / "out")
    assert not (tmp_path / "deep" / "escaped").exists() and not (tmp_path / "escaped").exists()


def test_a_link_then_a_file_through_it_writes_nothing_outside(tmp_path):
    (tmp_path / "outside").mkdir()
    link = member("dir", tarfile.SYMTYPE, str(tmp_path / "outside"))
    path = tar_of(tmp_path / "a.tar.gz", link, member("dir/file", size=1))
    with pytest.raises(MocaError, match=r"is a link or device"):
        extract(path, tmp_path / "out")
    assert list((tmp_path / "outside").iterdir()) == []


@pytest.mark.parametrize("name", ["../escaped", "/tmp/escaped", "a/../../escaped", "..\\escaped"])
def test_zips_that_leave_the_folder_are_refused(name, tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as out:
        out.writestr(name, "x")
    with pytest.raises(MocaError, match=r"leads out of its folder"):
        extract(path, tmp_path / "deep" / "out")
    assert not (tmp_path / "deep" / "escaped").exists()


def test_a_link_in_a_zip_is_refused(tmp_path):
    path = tmp_path / "a.zip"
    entry = zipfile.ZipInfo("link")
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(path, "w") as out:
        out.writestr(entry, "/etc/passwd")
    with pytest.raises(MocaError, match=r"'link' is a link or device"):
        extract(path, tmp_path / "out")


def test_a_file_twice_is_refused(tmp_path):
    path = tar_of(tmp_path / "a.tar.gz", member("a", size=1), member("a", size=1))
    with pytest.raises(MocaError, match=r"it has 'a' twice"):
        extract(path, tmp_path / "out")
    path = tar_of(tmp_path / "b.tar.gz", member("a", size=1), member("a/b", size=1))
    with pytest.raises(MocaError, match=r"it has .* twice"):
        extract(path, tmp_path / "other")


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


def test_too_many_files_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "_MEMBERS", 3)
    path = tar_of(tmp_path / "a.tar.gz", *(member(f"f{i}", size=1) for i in range(5)))
    with pytest.raises(MocaError, match=r"more than 3 files"):
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


def test_a_name_of_a_gigabyte_is_refused_before_it_is_read(tmp_path):
    head = member("././@LongLink", b"L", size=1 << 30).tobuf(tarfile.GNU_FORMAT)
    (tmp_path / "a.tar").write_bytes(head + bytes(10240))
    with pytest.raises(MocaError, match=r"a name in it is too long"):
        extract(tmp_path / "a.tar", tmp_path / "out")


@pytest.mark.parametrize("kind", [tarfile.DIRTYPE, tarfile.REGTYPE])
def test_headers_of_every_kind_count(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "_MEMBERS", 3)
    path = tar_of(tmp_path / "a.tar.gz", *(member(f"d{i}", kind) for i in range(5)))
    with pytest.raises(MocaError, match=r"more than 3 files and folders"):
        extract(path, tmp_path / "out")


def test_folders_and_attributes_are_forgotten_once_they_are_read(tmp_path):
    head = member("d", tarfile.DIRTYPE).tobuf(tarfile.USTAR_FORMAT)
    word = b"%d comment=" + b"x" * 400 + b"\n"
    shared = word % (len(word) + 1)
    note = member("g", tarfile.XGLTYPE, size=len(shared)).tobuf(tarfile.USTAR_FORMAT) + shared.ljust(512, b"\0")
    (tmp_path / "a.tar").write_bytes((note + head) * 5_000 + bytes(10240))
    tracemalloc.start()
    extract(tmp_path / "a.tar", tmp_path / "out")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 << 20


@pytest.mark.parametrize("where", ["between", "after"])
def test_bytes_that_belong_to_no_file_count_too(where, tmp_path, monkeypatch):
    monkeypatch.setattr(decompression, "_SMALL", 1 << 20)
    size = 16 << 20
    body = member("d", tarfile.DIRTYPE, size=size).tobuf(tarfile.USTAR_FORMAT) if where == "between" else b""
    with gzip.open(tmp_path / "a.tar.gz", "wb") as out:
        out.write(member("a").tobuf() + body + bytes(size + 10240))
    with pytest.raises(MocaError, match=r"it grows to more than 100 times its size"):
        extract(tmp_path / "a.tar.gz", tmp_path / "out")


def test_a_file_full_of_holes_is_refused_before_its_map_is_read(tmp_path):
    head = bytearray(member("holes", tarfile.GNUTYPE_SPARSE).tobuf(tarfile.GNU_FORMAT))
    head[482] = 1
    head[148:156] = b"%06o\0 " % tarfile.calc_chksums(bytes(head))[0]
    more = bytearray(b"00000000000\0" * 42 + bytes(8))
    more[504] = 1
    (tmp_path / "a.tar").write_bytes(bytes(head) + bytes(more) * 5_000)
    with pytest.raises(MocaError, match=r"a name in it is too long"):
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
    with pytest.raises(MocaError, match=r"cannot be a file's name here") as error:
        extract(path, tmp_path / "out")
    assert str(error.value).isprintable() and len(str(error.value)) < 300
