import hashlib

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from moca.data.fingerprint import Contents, Reference, compare, image_digests, tags
from tests.data.made import pictures


def contents(x, y, tx, ty):
    return Contents(np.asarray(y), image_digests(x), np.asarray(ty), image_digests(tx))


def obvious_fingerprint(x, y, tx, ty):
    """The same, one image at a time."""
    whole = hashlib.sha256()
    for split, images, labels in (("train", x, y), ("test", tx, ty)):
        key = b"".join(int(n).to_bytes(4, "little") for n in images.shape[1:])
        records = sorted(
            (int(label), hashlib.blake2b(image.tobytes(), digest_size=16, key=key).digest())
            for image, label in zip(images, labels, strict=True)
        )
        whole.update(f"{split} {len(labels)}\n".encode())
        for label, digest in records:
            whole.update(label.to_bytes(4, "little") + digest)
    return whole.hexdigest()


def sample(seed=0):
    return pictures(12, seed=seed), np.arange(12) % 3, pictures(6, seed=seed + 1), np.arange(6) % 3


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000))
def test_fingerprint_ignores_order_and_agrees_with_the_obvious_one(seed):
    x, y, tx, ty = sample()
    order = np.random.default_rng(seed).permutation(12)
    assert contents(x[order], y[order], tx, ty).fingerprint() == obvious_fingerprint(x, y, tx, ty)


def test_fingerprint_changes_with_a_pixel_a_label_a_split_and_the_shape():
    x, y, tx, ty = sample()
    right = contents(x, y, tx, ty).fingerprint()
    pixel = x.copy()
    pixel[3, 0, 0, 0] ^= 1
    label = y.copy()
    label[[0, 1]] = label[[1, 0]]
    others = [
        contents(pixel, y, tx, ty),
        contents(x, label, tx, ty),
        contents(tx, ty, x, y),
        contents(x.reshape(12, 4, 16, 3), y, tx.reshape(6, 4, 16, 3), ty),
    ]
    assert right not in [other.fingerprint() for other in others]


def reference_of(x, y, tx, ty):
    found = contents(x, y, tx, ty)
    order, test_order = np.argsort(y, kind="stable"), np.argsort(ty, kind="stable")
    both = np.concatenate([tags(found.train_digests)[order], tags(found.test_digests)[test_order]])
    counts = tuple(np.bincount(y).tolist()), tuple(np.bincount(ty).tolist())
    return Reference(found.fingerprint(), counts, both)


def test_a_right_copy_is_right():
    data = sample()
    result = compare(contents(*data), reference_of(*data))
    assert result.same and str(result) == "complete and right" and result.agreed == 18


def test_each_kind_of_difference_is_named_and_counted():
    x, y, tx, ty = sample()
    right = reference_of(x, y, tx, ty)
    cx, cy, ctx, cty = x.copy(), y.copy(), tx.copy(), ty.copy()
    cx[0, 0, 0, 0] ^= 255  # wrong, and the right one is missing
    cy[4] = (cy[4] + 1) % 3  # relabelled
    cx[8] = cx[5]  # 5 duplicated (both of class 2), 8 missing
    ctx[0], cx[3] = x[3], tx[0]  # swapped between the splits, class 0 both
    result = compare(contents(cx, cy, ctx, cty), right)
    assert not result.same
    assert [(p.split, p.index) for p in result.wrong] == [("train", 0)]
    assert [(p.split, p.index, p.label, p.right) for p in result.relabelled] == [("train", 4, 2, 1)]
    assert [(p.split, p.index) for p in result.duplicated] == [("train", 8)]
    assert sorted((p.split, p.index) for p in result.moved) == [("test", 0), ("train", 3)]
    assert result.missing == {("train", 0): 1, ("train", 2): 1}
    assert str(result) == "1 wrong, 1 duplicated, 1 relabelled, 2 moved, 2 missing"


def test_another_data_set_agrees_nowhere():
    result = compare(contents(*sample(seed=7)), reference_of(*sample()))
    assert result.agreed == 0 and "no image agrees" in str(result)
