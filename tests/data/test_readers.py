import gzip
import os
import struct

import numpy as np
import pytest
from PIL import Image

from moca.data import add, catalogue, decompression, load
from moca.data.readers import located
from moca.data.sizing import handy_size
from moca.errors import MocaError
from tests.data import made

CIFAR = made.small_set(classes=3, train=5, test=2, side=32)
GREY = made.small_set(classes=3, side=28, channels=1)
NAMES = ["ant", "bee", "cat"]

CONTAINERS = {
    "pickles, ten": (made.cifar10_python, CIFAR, "CIFAR-10 pickles", ("airplane", "automobile", "bird")),
    "pickles, hundred": (made.cifar100_python, CIFAR, "CIFAR-100 pickles", ("apple", "bear", "cup")),
    "binary, ten": (made.cifar10_binary, CIFAR, "CIFAR-10 binary", ("airplane", "automobile", "bird")),
    "binary, hundred": (made.cifar100_binary, CIFAR, "CIFAR-100 binary", ("0", "1", "2")),
    "idx": (made.idx, GREY, "idx files", ("0", "1", "2")),
    "idx, gz": (lambda r, d: made.idx(r, d, zipped=True), GREY, "idx files", ("0", "1", "2")),
    "sprites": (made.sprites, CIFAR, "PNG sprites", ("0", "1", "2")),
    "folder": (lambda r, d: made.folder(r, d, NAMES), CIFAR, "image folder", ("ant", "bee", "cat")),
    "folder, val": (
        lambda r, d: made.folder(r, d, NAMES, ("train", "val")),
        CIFAR,
        "image folder",
        ("ant", "bee", "cat"),
    ),
    "folder, grey": (lambda r, d: made.folder(r, d, NAMES), GREY, "image folder", ("ant", "bee", "cat")),
    "tiny": (lambda r, d: made.tiny_imagenet(r, d, NAMES), CIFAR, "Tiny-ImageNet folder", ("ant", "bee", "cat")),
    "parquet": (lambda r, d: made.parquet(r, d, NAMES), CIFAR, "parquet", ("ant", "bee", "cat")),
}


def prints(data, path):
    """The fingerprint of the same images as plain arrays."""
    return add("plain", made.npz(path / "plain.npz", data)).info.fingerprint


@pytest.mark.parametrize("how", CONTAINERS)
def test_every_container_gives_the_same_fingerprint(how, tmp_path):
    if how == "parquet":
        pytest.importorskip("pyarrow")
    make, data, kind, classes = CONTAINERS[how]
    added = add("mine", make(tmp_path / "source", data))
    assert (added.kind, added.info.classes) == (kind, classes)
    assert added.info.fingerprint == prints(data, tmp_path)


@pytest.mark.parametrize("how", CONTAINERS)
def test_image_files_are_brought_to_a_size_and_arrays_say_that_they_stay(how, tmp_path):
    if how == "parquet":
        pytest.importorskip("pyarrow")
    make, data, kind, _ = CONTAINERS[how]
    source = make(tmp_path / "source", data)
    if any(word in kind for word in ("folder", "parquet")):
        assert add("mine", source, size=16).info.shape[:2] == (16, 16)
        return
    with pytest.raises(MocaError, match=rf"\({kind}\) stay in the size .*; leave out size= \(image_size= of a run\)$"):
        add("mine", source, size=16)
    Image.new("RGB", (64, 64)).save(source / "preview.png")
    assert handy_size(source) is None, "a run that is not told a size asks for none"


@pytest.mark.parametrize("how", ["pickles, ten", "binary, hundred", "folder"])
@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_archives_are_extracted_and_recognised(how, mode, tmp_path):
    make, data, kind, _ = CONTAINERS[how]
    archive = made.tar(tmp_path / "x.bin", make(tmp_path / "source" / "inner", data), mode)
    added = add("mine", archive)
    assert added.kind == kind and added.info.fingerprint == prints(data, tmp_path)


def test_a_data_set_is_found_further_down_beside_other_folders(tmp_path):
    made.idx(tmp_path / "package" / "data", GREY)
    for other in ("bin", "test"):
        (tmp_path / "package" / other).mkdir()
        (tmp_path / "package" / other / "index.js").write_text("x")
    assert add("mine", tmp_path / "package").kind == "idx files"


def test_several_data_sets_in_one_folder_are_refused(tmp_path):
    made.idx(tmp_path / "both" / "a", GREY)
    made.idx(tmp_path / "both" / "b", GREY)
    with pytest.raises(MocaError, match=r"holds several data sets \(a, b\)"):
        add("mine", tmp_path / "both")


def test_a_folder_without_data_is_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(MocaError, match=r"holds no data set that moca recognises"):
        add("mine", tmp_path / "empty")


@pytest.mark.parametrize(
    "keys", [("x_train", "y_train", "x_test", "y_test"), ("X_train", "y_train", "X_test", "y_test")]
)
def test_arrays_under_other_names_and_channels_first(keys, tmp_path):
    x, y, tx, ty = CIFAR
    columns = (x.transpose(0, 3, 1, 2), y[:, None], tx.transpose(0, 3, 1, 2), ty[:, None])
    np.savez_compressed(tmp_path / "a.npz", **dict(zip(keys, columns, strict=True)))
    assert add("mine", tmp_path / "a.npz").info.fingerprint == prints(CIFAR, tmp_path)


def test_a_folder_of_npy_files(tmp_path):
    (tmp_path / "arrays").mkdir()
    for key, value in zip(("train_images", "train_labels", "test_images", "test_labels"), CIFAR, strict=True):
        np.save(tmp_path / "arrays" / f"{key}.npy", value)
    assert add("mine", tmp_path / "arrays").info.fingerprint == prints(CIFAR, tmp_path)


def test_class_names_in_an_npz(tmp_path):
    assert add("mine", made.npz(tmp_path / "a.npz", CIFAR, classes=np.array(NAMES))).info.classes == tuple(NAMES)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"train_labels": np.arange(3)}, "3 labels for 15 images"),
        ({"train_labels": np.zeros(15)}, "whole numbers are needed"),
        ({"train_labels": np.full(15, -1)}, "must count from 0"),
        ({"train_images": np.zeros((15, 32, 32, 3), np.float32)}, "bytes .uint8, 0 to 255. are needed"),
        ({"train_images": np.zeros((15, 9), np.uint8)}, r"\(n, height, width\[, channels\]\) is needed"),
        ({"train_images": np.zeros((15, 9, 9, 7), np.uint8)}, "must be 1 .grey. or 3 .colour."),
        ({"train_images": np.array([{}], object)}, "holds Python objects, which are never loaded"),
        ({"test_images": np.zeros((6, 16, 16, 3), np.uint8)}, "bring all to one size with size= "),
        ({"test_images": np.zeros((6, 32, 32, 1), np.uint8), "train_images": CIFAR[0]}, None),
    ],
)
def test_arrays_that_cannot_be_images(change, message, tmp_path, store_dir):
    keys = ("train_images", "train_labels", "test_images", "test_labels")
    np.savez(tmp_path / "a.npz", **{**dict(zip(keys, CIFAR, strict=True)), **change})
    if message is None:
        assert add("mine", tmp_path / "a.npz").info.shape == (32, 32, 3)
        return
    with pytest.raises(MocaError, match=message):
        add("mine", tmp_path / "a.npz")
    assert not (store_dir / "names").exists()


def test_an_npz_without_labels_or_images(tmp_path):
    np.savez(tmp_path / "a.npz", train_images=CIFAR[0])
    with pytest.raises(MocaError, match=r"no labels for them; add 'train_labels'"):
        add("mine", tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", weights=np.zeros(3))
    with pytest.raises(MocaError, match=r"no images and labels among its arrays \(weights\)"):
        add("mine", tmp_path / "b.npz")


def test_a_truncated_npz(tmp_path):
    whole = made.npz(tmp_path / "a.npz", CIFAR).read_bytes()
    (tmp_path / "b.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(MocaError, match=r"it may be cut short"):
        add("mine", tmp_path / "b.npz")


def test_a_missing_cifar_file(tmp_path):
    source = made.cifar10_python(tmp_path / "s", CIFAR)
    (source / "data_batch_3").unlink()
    with pytest.raises(MocaError, match=r"lacks data_batch_3; extract the whole archive"):
        add("mine", source)


def test_truncated_cifar_files(tmp_path):
    source = made.cifar10_python(tmp_path / "s", CIFAR)
    (source / "data_batch_3").write_bytes((source / "data_batch_3").read_bytes()[:100])
    with pytest.raises(MocaError, match=r"data_batch_3 is not a CIFAR file"):
        add("mine", source)
    source = made.cifar10_binary(tmp_path / "b", CIFAR)
    (source / "data_batch_3.bin").write_bytes((source / "data_batch_3.bin").read_bytes()[:100])
    with pytest.raises(MocaError, match=r"data_batch_3.bin is cut short"):
        add("mine", source)


@pytest.mark.parametrize("zipped", [False, True])
def test_truncated_idx_files(zipped, tmp_path):
    source = made.idx(tmp_path / "s", GREY, zipped)
    victim = next(source.glob("train-images*"))
    victim.write_bytes(victim.read_bytes()[:200])
    with pytest.raises(MocaError, match=r"train-images-idx3-ubyte(\.gz)? (is cut short|cannot be read)"):
        add("mine", source)


def test_idx_files_that_are_something_else(tmp_path):
    source = made.idx(tmp_path / "s", GREY)
    (source / "train-images-idx3-ubyte").write_bytes(b"hello, world")
    with pytest.raises(MocaError, match=r"is not an idx file of bytes"):
        add("mine", source)
    source = made.idx(tmp_path / "t", GREY)
    (source / "train-labels-idx1-ubyte").unlink()
    with pytest.raises(MocaError, match=r"no labels for it"):
        add("mine", source)


def test_idx_labels_of_another_length(tmp_path):
    source = made.idx(tmp_path / "s", GREY, zipped=True)
    short = gzip.decompress((source / "t10k-labels-idx1-ubyte.gz").read_bytes())
    (source / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(short))
    with pytest.raises(MocaError, match=r"6 labels for 12 images"):
        add("mine", source)


def test_one_folder_is_split_by_a_seed_and_the_images_alone(tmp_path):
    x, y, _, _ = made.small_set(classes=2, train=10)
    first = made.folder(tmp_path / "a", (x, y, x[:0], y[:0])) / "train"
    order = np.random.default_rng(1).permutation(len(y))
    second = made.folder(tmp_path / "b", (x[order], y[order], x[:0], y[:0])) / "train"
    one, two = add("one", first).info, add("two", second).info
    assert one.test == (2, 2) and one.train == (8, 8)
    assert one.fingerprint == two.fingerprint != add("three", first, seed=1).info.fingerprint
    assert add("four", first, test_share=0.5).info.test == (5, 5)


@pytest.mark.parametrize(
    "names", [("Train", "Test"), ("TRAINING", "Valid"), ("training_set", "test_set"), ("train_set", "Val_Set")]
)
def test_names_of_splits_are_no_classes_whatever_their_case(names, tmp_path):
    data = made.small_set()
    added = add("mine", made.folder(tmp_path / "a", data, NAMES, names))
    assert added.info.classes == tuple(NAMES) and added.info.fingerprint == prints(data, tmp_path)


def test_of_two_test_sets_the_one_that_is_not_taken_is_noted(tmp_path):
    data = made.small_set()
    source = made.folder(tmp_path / "a", data, NAMES)
    made.folder(source, made.small_set(seed=5), NAMES, ("other", "Val"))
    made.folder(source, made.small_set(seed=6), NAMES, ("other", "valid"))
    added = add("mine", source)
    assert added.info.notes == ("of test, Val, valid only test was taken",)
    assert added.info.fingerprint == prints(data, tmp_path)


def test_of_parquet_files_for_test_and_validation_the_latter_are_noted(tmp_path):
    pytest.importorskip("pyarrow")
    source = made.parquet(tmp_path / "p", CIFAR, NAMES)
    made.parquet_file(source / "validation-0.parquet", *CIFAR[2:], NAMES)
    added = add("mine", source)
    assert added.info.notes == (
        "of test-00000-of-00001.parquet, validation-0.parquet only test-00000-of-00001.parquet was taken",
    )
    assert added.info.fingerprint == prints(CIFAR, tmp_path)


def test_two_test_sets_without_a_training_set_are_no_classes(tmp_path):
    source = made.folder(tmp_path / "a", made.small_set(), NAMES, ("val", "test"))
    with pytest.raises(MocaError, match=r"holds several data sets \(test, val\); give one"):
        add("mine", source)
    (source / "bus").mkdir()
    (source / "bus" / "a.png").write_bytes(made.png(made.pictures(1)[0]))
    with pytest.raises(MocaError, match=r"class 'bus' has one image"):  # a class beside others
        add("mine", source)


def test_a_class_of_one_image_cannot_be_split(tmp_path):
    source = made.folder(tmp_path / "a", made.small_set(train=1))
    with pytest.raises(MocaError, match=r"class 'class0' has one image; a test set cannot be split off"):
        add("mine", source / "train")


def test_an_empty_class_and_classes_that_disagree(tmp_path):
    source = made.folder(tmp_path / "a", made.small_set())
    (source / "train" / "zebra").mkdir()
    with pytest.raises(MocaError, match=r"class 'zebra' has no image"):
        add("mine", source)
    (source / "train" / "zebra" / "a.png").write_bytes(made.png(made.pictures(1)[0]))
    with pytest.raises(MocaError, match=r"class 'zebra' is in .*train but not in .*test"):
        add("mine", source)
    (source / "test" / "yak").mkdir()
    (source / "test" / "yak" / "a.png").write_bytes(made.png(made.pictures(1)[0]))
    with pytest.raises(MocaError, match=r"class 'yak' is in .*test but not in .*train"):
        add("mine", source)


def test_an_unreadable_folder(tmp_path, monkeypatch):
    source = made.folder(tmp_path / "a", made.small_set())
    scan = os.scandir

    def denied(path):
        if str(path).endswith("class1"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr("os.scandir", denied)
    with pytest.raises(MocaError, match=r"cannot read the folder .*class1 \(Permission denied\)"):
        add("mine", source)


def test_files_that_are_no_images_and_hidden_ones_are_passed_over(tmp_path):
    data = made.small_set()
    source = made.folder(tmp_path / "a", data)
    (source / "train" / "class0" / "notes.txt").write_text("x")
    (source / "train" / "class0" / "._0001.png").write_text("x")
    (source / "train" / ".cache").mkdir()
    assert add("mine", source).info.fingerprint == prints(data, tmp_path)


def test_a_bad_list_of_validation_images(tmp_path):
    source = made.tiny_imagenet(tmp_path / "t", CIFAR, NAMES)
    annotations = source / "val" / "val_annotations.txt"
    annotations.write_text(annotations.read_text() + "../../secret.png\tant\n")
    with pytest.raises(MocaError, match=r"line 7 of .*val_annotations.txt names no file and class"):
        add("mine", source)


def test_few_shot_folders_of_mini_imagenet(tmp_path, monkeypatch):
    classes = catalogue.known("miniimagenet").classes
    image = Image.new("RGB", (8, 8))
    for i, name in enumerate(classes):
        place = tmp_path / "mini" / ("train" if i < 64 else "val" if i < 80 else "test") / name
        place.mkdir(parents=True)
        for j in range(3):
            image.putpixel((0, 0), (i, j, 0))
            image.save(place / f"{j}.png")
    monkeypatch.setattr("moca.data.readers.mini_imagenet._HELD_OUT", 1)
    info = add("mine", tmp_path / "mini").info
    assert info.classes == classes and set(info.train) == {2} and set(info.test) == {1}


def test_parquet_without_the_extra_says_which(tmp_path, monkeypatch):
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    with pytest.raises(MocaError, match=r"pip install 'moca-cl\[parquet\]'"):
        add("mine", tmp_path / "a.parquet")


def test_parquet_that_cannot_be_read(tmp_path):
    pytest.importorskip("pyarrow")
    import pyarrow as pa
    import pyarrow.parquet as pq

    (tmp_path / "a.parquet").write_bytes(b"PAR1 and then nothing")
    with pytest.raises(MocaError, match=r"is not a readable parquet file"):
        add("mine", tmp_path / "a.parquet")
    pq.write_table(pa.table({"text": ["a"], "label": [0]}), tmp_path / "b.parquet")
    with pytest.raises(MocaError, match=r"has the columns text, label; one must be called 'image' or 'img'"):
        add("mine", tmp_path / "b.parquet")
    pq.write_table(pa.table({"image": [{"path": "x"}], "label": [0]}), tmp_path / "c.parquet")
    with pytest.raises(MocaError, match=r"rows without the bytes of an image"):
        add("mine", tmp_path / "c.parquet")


def test_parquet_files_are_closed(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    opened, whole = [], pq.ParquetFile

    class Listed(whole):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            opened.append(self)

    monkeypatch.setattr(pq, "ParquetFile", Listed)
    add("mine", made.parquet(tmp_path / "p", CIFAR, NAMES))
    assert len(opened) == 4, "each of the two once for the labels, once for the images"
    assert all(file.closed for file in opened)


def test_one_parquet_file_is_split(tmp_path):
    pytest.importorskip("pyarrow")
    made.parquet(tmp_path / "p", CIFAR, NAMES)
    added = add("mine", tmp_path / "p" / "train-00000-of-00001.parquet")
    assert added.info.test == (1, 1, 1) and added.info.classes == tuple(NAMES)
    assert len(load("mine").train) == 12


@pytest.mark.parametrize("names", [("flowers-train", "flowers-test"), ("Train_0", "flowers validation")])
def test_a_word_in_the_name_of_a_parquet_file_says_its_split(names, tmp_path):
    pytest.importorskip("pyarrow")
    for name, x, y in ((names[0], *CIFAR[:2]), (names[1], *CIFAR[2:])):
        made.parquet_file(tmp_path / "p" / f"{name}.parquet", x, y, NAMES)
    assert add("mine", tmp_path / "p").info.fingerprint == prints(CIFAR, tmp_path)


def test_parquet_files_that_do_not_say_their_split_are_one(tmp_path):
    pytest.importorskip("pyarrow")
    x, y = CIFAR[:2]
    for number, rows in enumerate(np.array_split(np.arange(len(y)), 4)):
        made.parquet_file(tmp_path / "p" / f"{number:04d}.parquet", x[rows], y[rows], NAMES)
    assert add("mine", tmp_path / "p").info.images == 15
    np.savez(tmp_path / "all.npz", images=x, labels=y)
    assert load("mine").fingerprint == add("plain", tmp_path / "all.npz").info.fingerprint


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("train", "more"), r"more.parquet does not say its split and other files do; put train or test into"),
        (("test-0", "test-1"), r"no file to learn from \(test-0.parquet, ...\); put train into the name of one"),
    ],
)
def test_parquet_files_whose_split_is_unclear_are_refused(names, message, tmp_path):
    pytest.importorskip("pyarrow")
    for name in names:
        made.parquet_file(tmp_path / "p" / f"{name}.parquet", *CIFAR[:2], NAMES)
    with pytest.raises(MocaError, match=message):
        add("mine", tmp_path / "p")


def test_a_file_that_may_not_be_read_is_one_line(tmp_path, monkeypatch):
    source = made.cifar10_binary(tmp_path / "s", CIFAR)

    def denied(path, *_):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("numpy.fromfile", denied)
    with pytest.raises(MocaError, match=r"cannot read .*data_batch_1.bin \(Permission denied\)"):
        add("mine", source)


@pytest.mark.parametrize("how", CONTAINERS)
def test_damaged_files_give_a_clear_line_or_other_images_but_never_a_crash(how, tmp_path, store_dir):
    if how == "parquet":
        pytest.importorskip("pyarrow")
    make, data, _, _ = CONTAINERS[how]
    source = make(tmp_path / "source", data)
    files = sorted(p for p in source.rglob("*") if p.is_file())
    rng = np.random.default_rng(0)
    for turn in range(12):
        victim = files[rng.integers(len(files))]
        whole = victim.read_bytes()
        damaged = bytearray(whole)
        for at in rng.integers(0, min(len(whole), 400 if turn % 2 else len(whole)), 3):
            damaged[at] = rng.integers(256)
        victim.write_bytes(damaged if turn % 3 else damaged[: rng.integers(len(whole))])
        try:
            add("mine", source)
        except MocaError as error:
            assert "\n" not in str(error)
        victim.write_bytes(whole)
        assert not (store_dir / "tmp").exists() or list((store_dir / "tmp").iterdir()) == []


def test_sprites_without_pictures_are_one_line(tmp_path):
    source = made.sprites(tmp_path / "s", CIFAR)
    for picture in source.glob("*.png"):
        picture.unlink()
    with pytest.raises(MocaError, match=r"cannot read .*data_batch_1.png .*fetch the package again"):
        add("mine", source)


@pytest.mark.parametrize("text", ["[" * 200_000, '[{"a": 1}]', "[1, [2]]", "[1" + "0" * 30 + "]", "7", '["a"]'])
def test_sprites_with_labels_that_are_no_list_of_numbers_are_one_line(text, tmp_path):
    source = made.sprites(tmp_path / "s", CIFAR)
    (source / "train_lables.json").write_text(text)
    with pytest.raises(MocaError, match=r"lables.json|whole numbers are needed"):
        add("mine", source)


@pytest.mark.parametrize(
    "label", [b"\x8a\x09" + b"\xff" * 8 + b"\x00", b"I1" + b"0" * 30 + b"\n", b"J\xff\xff\xff\x7f"]
)
def test_a_huge_label_is_one_line(label, tmp_path):
    source = made.cifar10_python(tmp_path / "s", CIFAR)
    whole = (source / "data_batch_1").read_bytes()
    at = whole.index(b"U\x06labels](") + 10
    (source / "data_batch_1").write_bytes(whole[:at] + label + whole[at + 5 :])
    with pytest.raises(MocaError, match=r"data_batch_1 has no labels from 0 to 99"):
        add("mine", source)


def zeros_npz(path, count):
    black = np.zeros((count, 32, 32), np.uint8)
    np.savez_compressed(path, train_images=black, train_labels=np.arange(count) % 2)
    return path


def zeros_idx(path, count):
    path.mkdir()
    head = struct.pack(">HBBIII", 0, 8, 3, count, 32, 32)
    (path / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(head + bytes(count << 10)))
    (path / "train-labels-idx1-ubyte").write_bytes(struct.pack(">HBBI", 0, 8, 1, count) + bytes(count))
    return path


@pytest.mark.parametrize("make", [zeros_npz, zeros_idx])
def test_a_small_file_of_many_images_is_refused_before_it_fills_the_disk(make, tmp_path, monkeypatch, store_dir):
    monkeypatch.setattr(decompression, "_SMALL", 1 << 20)
    monkeypatch.setattr("moca.data.writer.image_digests", lambda images: pytest.fail("images were written"))
    with pytest.raises(MocaError, match=r"is refused: it grows to more than 100 times its size"):
        add("mine", make(tmp_path / "a.npz", 16 << 10))
    assert not (store_dir / "names").exists()


def test_a_packed_file_may_not_grow_more_than_its_archive_may(tmp_path, monkeypatch):
    monkeypatch.setattr(decompression, "_SMALL", 1 << 16)
    monkeypatch.setattr(decompression, "_RATIO", 2000)
    archive = made.tar(tmp_path / "a.tar.gz", zeros_idx(tmp_path / "a", 4 << 10))
    with pytest.raises(MocaError, match=r"is refused: it grows to more than"):
        add("mine", archive)


@pytest.mark.parametrize("names", [[1, 2, 3], 7, [[b"a"]]])
def test_class_names_that_are_no_text_are_one_line(names, tmp_path):
    source = made.cifar10_python(tmp_path / "s", CIFAR)
    (source / "batches.meta").write_bytes(made.python2_pickle({b"label_names": names}))
    with pytest.raises(MocaError, match=r"batches.meta has names that are not text"):
        add("mine", source)


def test_a_folder_that_has_no_classes_says_why(tmp_path):
    (tmp_path / "one" / "ring").mkdir(parents=True)
    (tmp_path / "empty").mkdir()
    (tmp_path / "one" / "ring" / "a.png").touch()
    for name, why in (
        ("empty", "it is empty"),
        ("one", r"it has one class \('ring'\), and at least two"),
        ("one/ring", "give the folder above it"),
    ):
        with pytest.raises(MocaError, match=f"holds no data set that moca recognises: .*{why}"):
            located(tmp_path / name)
