"""Small data sets in every container, made by the tests."""

import gzip
import io
import json
import struct
import tarfile
from pathlib import Path

import numpy as np
from PIL import Image


def pictures(n=12, side=8, channels=3, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (n, side, side, channels), np.uint8)


def small_set(classes=3, train=4, test=2, side=8, channels=3, seed=0):
    """Images and labels of both splits, shuffled."""
    rng = np.random.default_rng(seed)
    x, y = pictures(classes * train, side, channels, seed), np.arange(classes * train) % classes
    tx, ty = pictures(classes * test, side, channels, seed + 1), np.arange(classes * test) % classes
    order, torder = rng.permutation(len(y)), rng.permutation(len(ty))
    return x[order], y[order], tx[torder], ty[torder]


def npz(path, data, **more):
    keys = ("train_images", "train_labels", "test_images", "test_labels")
    np.savez(path, **dict(zip(keys, data, strict=True)), **more)
    return path


def png(image):
    out = io.BytesIO()
    Image.fromarray(image[:, :, 0] if image.shape[2] == 1 else image).save(out, "PNG")
    return out.getvalue()


def folder(root, data, names=None, splits=("train", "test")):
    """train/<class>/*.png and test/<class>/*.png."""
    for split, (x, y) in zip(splits, (data[:2], data[2:]), strict=True):
        for i, (image, label) in enumerate(zip(x, y, strict=True)):
            place = root / split / (names[label] if names else f"class{label}")
            place.mkdir(parents=True, exist_ok=True)
            (place / f"{i:04d}.png").write_bytes(png(image))
    return root


def flat(images):
    """As CIFAR has them: rows of red, green, then blue planes."""
    return np.ascontiguousarray(images.transpose(0, 3, 1, 2)).reshape(len(images), -1)


def python2_pickle(value):
    """As Python 2 and the numpy of its day wrote CIFAR's files."""
    return b"\x80\x02" + _written(value) + b"."


def _written(value):
    if isinstance(value, bytes):
        return (b"U" + bytes([len(value)]) if len(value) < 256 else b"T" + struct.pack("<i", len(value))) + value
    if isinstance(value, int):
        return b"J" + struct.pack("<i", value)
    if isinstance(value, list):
        return b"](" + b"".join(map(_written, value)) + b"e"
    if isinstance(value, tuple):
        return b"(" + b"".join(map(_written, value)) + b"t"
    if isinstance(value, dict):
        return b"}(" + b"".join(_written(k) + _written(v) for k, v in value.items()) + b"u"
    start = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n" + _written((0,)) + _written(b"b") + b"\x87R"
    kind = b"cnumpy\ndtype\n" + _written((b"u1", 0, 1)) + b"R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    return start + b"(K\x01" + _written(value.shape) + kind + b"\x89" + _written(value.tobytes()) + b"tb"


def cifar10_python(root, data):
    x, y, tx, ty = data
    root.mkdir(parents=True)
    for i, (images, labels) in enumerate(zip(np.array_split(x, 5), np.array_split(y, 5), strict=True), 1):
        batch = {
            b"data": flat(images),
            b"labels": labels.tolist(),
            b"batch_label": b"x",
            b"filenames": [b"a"] * len(labels),
        }
        (root / f"data_batch_{i}").write_bytes(python2_pickle(batch))
    (root / "test_batch").write_bytes(python2_pickle({b"data": flat(tx), b"labels": ty.tolist()}))
    names = [b"airplane", b"automobile", b"bird"]
    (root / "batches.meta").write_bytes(python2_pickle({b"label_names": names}))
    return root


def cifar100_python(root, data):
    x, y, tx, ty = data
    root.mkdir(parents=True)
    for name, images, labels in (("train", x, y), ("test", tx, ty)):
        batch = {b"data": flat(images), b"fine_labels": labels.tolist(), b"coarse_labels": [0] * len(labels)}
        (root / name).write_bytes(python2_pickle(batch))
    (root / "meta").write_bytes(python2_pickle({b"fine_label_names": [b"apple", b"bear", b"cup"]}))
    return root


def cifar10_binary(root, data):
    x, y, tx, ty = data
    root.mkdir(parents=True)
    for i, (images, labels) in enumerate(zip(np.array_split(x, 5), np.array_split(y, 5), strict=True), 1):
        np.concatenate([labels[:, None].astype(np.uint8), flat(images)], 1).tofile(root / f"data_batch_{i}.bin")
    np.concatenate([ty[:, None].astype(np.uint8), flat(tx)], 1).tofile(root / "test_batch.bin")
    (root / "batches.meta.txt").write_text("airplane\nautomobile\nbird\n\n")
    return root


def cifar100_binary(root, data):
    root.mkdir(parents=True)
    for name, images, labels in (("train", *data[:2]), ("test", *data[2:])):
        both = np.stack([np.zeros_like(labels), labels], 1).astype(np.uint8)
        np.concatenate([both, flat(images)], 1).tofile(root / f"{name}.bin")
    return root


def idx(root, data, zipped=False):
    root.mkdir(parents=True)
    for start, images, labels in (("train", *data[:2]), ("t10k", *data[2:])):
        n, height, width, _ = images.shape
        content = {
            f"{start}-images-idx3-ubyte": struct.pack(">HBBIII", 0, 8, 3, n, height, width) + images.tobytes(),
            f"{start}-labels-idx1-ubyte": struct.pack(">HBBI", 0, 8, 1, n) + labels.astype(np.uint8).tobytes(),
        }
        for name, raw in content.items():
            if zipped:
                (root / f"{name}.gz").write_bytes(gzip.compress(raw))
            else:
                (root / name).write_bytes(raw)
    return root


def tiny_imagenet(root, data, names):
    x, y, tx, ty = data
    for i, (image, label) in enumerate(zip(x, y, strict=True)):
        place = root / "train" / names[label] / "images"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{names[label]}_{i}.png").write_bytes(png(image))
        (root / "train" / names[label] / f"{names[label]}_boxes.txt").write_text("boxes")
    place = root / "val" / "images"
    place.mkdir(parents=True)
    lines = []
    for i, (image, label) in enumerate(zip(tx, ty, strict=True)):
        (place / f"val_{i}.png").write_bytes(png(image))
        lines.append(f"val_{i}.png\t{names[label]}\t0\t0\t1\t1\n")
    (root / "val" / "val_annotations.txt").write_text("".join(lines))
    (root / "test" / "images").mkdir(parents=True)
    (root / "test" / "images" / "test_0.png").write_bytes(png(x[0]))
    return root


def sprites(root, data):
    x, y, tx, ty = data
    root.mkdir(parents=True)
    for i, images in enumerate(np.array_split(x, 5), 1):
        (root / f"data_batch_{i}.png").write_bytes(png(images.reshape(len(images), 1024, 3)))
    (root / "test_batch.png").write_bytes(png(tx.reshape(len(tx), 1024, 3)))
    (root / "train_lables.json").write_text(json.dumps(y.tolist()))
    (root / "test_lables.json").write_text(json.dumps(ty.tolist()))
    return root


def parquet(root, data, names):
    for split, x, y in (("train", *data[:2]), ("test", *data[2:])):
        parquet_file(root / f"{split}-00000-of-00001.parquet", x, y, names)
    return root


def parquet_file(path, x, y, names):
    import pyarrow as pa
    import pyarrow.parquet as pq

    path.parent.mkdir(parents=True, exist_ok=True)
    features = {"image": {"_type": "Image"}, "label": {"names": list(names), "_type": "ClassLabel"}}
    about = {"huggingface": json.dumps({"info": {"features": features}})}
    rows = {"image": [{"bytes": png(image), "path": None} for image in x], "label": y.tolist()}
    pq.write_table(pa.table(rows).replace_schema_metadata(about), path)


def tar(path, root, mode="w:gz"):
    with tarfile.open(path, mode) as archive:
        archive.add(root, arcname=root.name)
    return Path(path)
