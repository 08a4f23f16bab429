import hashlib

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from moca.data.fingerprint import Contents, image_digests
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
