"""Data sets of what is in Python: the same ones as from a file, whatever they are in."""

import tracemalloc

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import Dataset as TorchDataset
from torch.utils.data import Subset, TensorDataset

import moca
from moca.data import add, dataset, load
from moca.errors import MocaError
from moca.streams import class_incremental
from tests.data import made

DATA = made.small_set(classes=3, train=5, test=2)
GREY = made.small_set(classes=3, train=5, test=2, channels=1)


class Pictures(TorchDataset):
    """As torchvision's sets are: PIL images, numbers, and names."""

    def __init__(self, images, labels, classes=None):
        self.images, self.labels = images, labels
        if classes:
            self.classes = classes

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        image = self.images[index]
        return Image.fromarray(image[:, :, 0] if image.shape[2] == 1 else image), int(self.labels[index])


def tensors(images):
    return torch.from_numpy(images).permute(0, 3, 1, 2)


FORMS = {
    "arrays": lambda x, y: (x, y),
    "list of two": lambda x, y: [x, y],
    "channels first": lambda x, y: (x.transpose(0, 3, 1, 2), y),
    "tensors": lambda x, y: (tensors(x), torch.from_numpy(y)),
    "floats": lambda x, y: (x / 255, y.astype(np.uint8)),
    "half floats": lambda x, y: ((x / 255).astype(np.float16), y[:, None]),
    "float tensors": lambda x, y: (tensors(x).float() / 255, y.tolist()),
    "opaque": lambda x, y: (np.concatenate([x, np.full_like(x[..., :1], 255)], 3), y),
    "list of images": lambda x, y: ([Image.fromarray(image) for image in x], list(y)),
    "names": lambda x, y: (x, np.array(["0", "1", "2"])[y]),
    "pictures": Pictures,
    "tensor data set": lambda x, y: TensorDataset(tensors(x), torch.from_numpy(y)),
    "list of pairs": lambda x, y: list(zip(x, y, strict=True)),
    "float pairs": lambda x, y: [(i, np.int64(c)) for i, c in zip(tensors(x).float() / 255, y, strict=True)],
    "subset": lambda x, y: Subset(Pictures(x, y), range(len(y))),
    "split": lambda x, y: moca.data.Split(tensors(x), torch.from_numpy(y)),
}


@pytest.mark.parametrize("how", FORMS)
def test_every_form_gives_the_stored_set(how, tmp_path):
    add("mine", made.npz(tmp_path / "a.npz", DATA))
    stored, made_of = load("mine"), dataset(FORMS[how](*DATA[:2]), FORMS[how](*DATA[2:]))
    assert repr(made_of) == "Dataset 'own': 15 training and 6 test images of 3 classes, 3x8x8"
    assert made_of.fingerprint == stored.fingerprint and made_of.classes == stored.classes
    assert made_of.protocol == stored.protocol
    for split in ("train", "test"):
        ours, theirs = getattr(made_of, split), getattr(stored, split)
        assert ours.images.equal(theirs.images) and ours.labels.equal(theirs.labels)
        assert ours.images.dtype == torch.uint8 and ours.labels.dtype == torch.int64
    assert len(class_incremental(made_of, 3)) == 3


def test_what_is_given_is_not_changed_and_not_kept():
    x, y, tx, ty = (part.copy() for part in DATA)
    own = dataset((x, y), (tx, ty))
    own.train.images.zero_()
    assert (x == DATA[0]).all()


def test_a_test_set_is_held_out_by_the_images_alone(tmp_path):
    x, y = DATA[:2]
    np.savez(tmp_path / "a.npz", images=x, labels=y)
    add("mine", tmp_path / "a.npz", test_share=0.4, seed=3)
    order = np.random.default_rng(0).permutation(len(y))
    own = dataset((x[order], y[order]), test_share=0.4, seed=3)
    assert own.fingerprint == load("mine").fingerprint != dataset((x, y), test_share=0.4, seed=4).fingerprint
    assert own.notes == load("mine").notes == ("40% of each class split off as the test set with seed 3",)
    assert torch.bincount(own.test.labels).tolist() == [2, 2, 2]


def test_classes_are_the_sorted_labels_or_what_they_are_called():
    x, y, tx, ty = DATA
    ids = np.array([10, 9, 200])
    assert dataset((x, ids[y]), (tx, ids[ty])).classes == ("9", "10", "200")
    words = ["bee", "ant", "cat"]
    by_name = dataset((x, [words[c] for c in y]), (tx, [words[c] for c in ty]))
    assert by_name.classes == ("ant", "bee", "cat")
    called = dataset((x, y), (tx, ty), classes=words, name="insects")
    assert called.classes == tuple(words) and called.name == "insects"
    by_name = dataset((x, [words[c] for c in y]), (tx, [words[c] for c in ty]), classes=words)
    assert by_name.classes == tuple(words) and by_name.fingerprint == called.fingerprint
    assert (called.train.labels == dataset((x, y), (tx, ty)).train.labels).all()
    assert dataset(Pictures(x, y, words), Pictures(tx, ty, words)).classes == tuple(words)
    assert dataset(Pictures(x, y, [*words, "dog"]), Pictures(tx, ty)).classes == tuple(words), "one has no image"
    assert dataset(Pictures(x, y + 1, ["dog", *words]), Pictures(tx, ty + 1)).classes == tuple(words)
    assert dataset(Pictures(x, y + 1, words), Pictures(tx, ty + 1)).classes == ("1", "2", "3"), "3 is no place in it"


@pytest.mark.parametrize(
    ("shape", "torchlike", "expected"),
    [
        ((20, 3, 3), False, (1, 3, 3)),
        ((20, 3, 3), True, (1, 3, 3)),
        ((20, 5, 6, 3), True, (3, 5, 6)),
        ((20, 3, 5, 6), False, (3, 5, 6)),
        ((20, 1, 4, 4), False, (1, 4, 4)),
        ((20, 4, 4, 1), True, (1, 4, 4)),
        ((20, 4, 5, 6), False, (3, 5, 6)),
        ((20, 4, 4, 4), True, (3, 4, 4)),
        ((20, 3, 5, 3), False, (3, 3, 5)),
        ((20, 3, 5, 3), True, (3, 5, 3)),
    ],
)
def test_which_axis_is_the_channels(shape, torchlike, expected):
    x = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    images = torch.from_numpy(x) if torchlike else x
    assert dataset((images, np.arange(20) % 2)).shape == expected


def test_grey_images_among_colour_ones_become_colour():
    x, y, tx, ty = DATA
    pictures = [Image.fromarray(image) for image in x]
    mixed = [(p.convert("L") if i < 3 else p, c) for i, (p, c) in enumerate(zip(pictures, y, strict=True))]
    assert dataset(mixed, (tx, ty)).shape == (3, 8, 8)
    both = dataset((GREY[0], y), (tx, ty))
    assert both.shape == (3, 8, 8) and (both.train.images[:, 0] == both.train.images[:, 2]).all()
    assert dataset((x, y), (GREY[2], GREY[3])).shape == (3, 8, 8)
    assert dataset(GREY[:2], GREY[2:]).shape == (1, 8, 8)


def test_what_should_be_known_is_noted():
    x, y, tx, ty = (part.copy() for part in DATA)
    tx[4] = x[7]
    ty[4] = y[7]
    own = dataset((np.concatenate([x, np.full_like(x[..., :1], 255)], 3), y), (tx, ty))
    assert own.notes == (
        "images with transparency were laid on white",
        f"1 image in both the training and the test set, for example image 7 of train ('{y[7]}') "
        f"and image 4 of test ('{y[7]}')",
    )


@pytest.mark.parametrize("how", ["arrays", "list of images", "pictures", "pairs", "tensor data set", "list of arrays"])
def test_transparent_images_lie_on_white_and_that_is_noted(how):
    x, y, tx, ty = DATA
    alpha = x[..., :1].astype(float)
    seen = np.rint((x * alpha + 255 * (255 - alpha)) / 255).astype(np.uint8)
    clear = np.concatenate([x, x[..., :1]], 3)
    train = {
        "arrays": (clear, y),
        "list of images": ([Image.fromarray(image) for image in clear], y),
        "list of arrays": (list(clear), y),
        "pictures": Pictures(clear, y),
        "pairs": [(image, label) for image, label in zip([*x[:-1], clear[-1]], y, strict=True)],
        "tensor data set": TensorDataset(tensors(clear), torch.from_numpy(y)),
    }[how]
    own = dataset(train, (tx, ty))
    if how == "pairs":
        seen = np.concatenate([x[:-1], seen[-1:]])
    assert own.notes == ("images with transparency were laid on white",)
    assert own.fingerprint == dataset((seen, y), (tx, ty)).fingerprint and dataset((seen, y), (tx, ty)).notes == ()


def test_a_moca_data_set_is_one_already():
    digits = moca.load("digits")
    assert dataset(digits) is digits
    with pytest.raises(MocaError, match=r"has test images and classes of its own; give it alone"):
        dataset(digits, DATA[2:])


X, Y = DATA[:2]
NAN = np.where(np.arange(15).reshape(-1, 1, 1, 1) == 14, np.nan, X / 255)
WRONG = {
    "range": ((X / 1.0, Y), r"floats from 0 to 255, not from 0 to 1; divide them by their largest value"),
    "normalised": ((X / 127.5 - 1, Y), r"floats from -1 to 1, not from 0 to 1; .*leave normalisation out"),
    "not a number": ((NAN, Y), r"images of train have pixels that are NaN"),
    "infinite": ((X / 255 + np.where(X == 255, np.inf, 0), Y), r"floats from 0 to inf"),
    "whole numbers": ((X.astype(np.int64), Y), r"of type int64; give uint8 \(0 to 255\), or floats from 0 to 1"),
    "objects": ((np.array([X[0], X[1, :4]], object), [0, 1]), r"of type object; give uint8"),
    "shape": ((X[None], Y[:1]), r"images of train have shape \(1, 15, 8, 8, 3\); \(n, height, width\), .* is needed"),
    "tokens": (
        (X.reshape(15, -1), Y),
        r"train is a table \(15, 192\) of uint8; .* vectors are floats \(n, d\), .*tokens",
    ),
    "vectors with NaN": ((NAN.reshape(15, -1), Y), r"vectors of train have numbers that are NaN or infinite"),
    "vectors of two lengths": (([np.ones(3), np.ones(4)], [0, 1]), r"vectors of train differ in length"),
    "vectors and labels": ((np.ones((3, 5)), [0, 1]), r"train has 3 vectors and 2 labels"),
    "channels": ((X.reshape(15, 8, 12, 2), Y), r"have shape \(15, 8, 12, 2\); .* with 1, 3 or 4 channels"),
    "lengths": ((X, Y[:9]), r"train has 15 images and 9 labels; there must be a label for each"),
    "no images": ((X[:0], Y[:0]), r"train has no images"),
    "no items": (Pictures(X[:0], Y[:0]), r"train has no images"),
    "no pixels": ((X[:, :0], Y), r"train has no images"),
    "no pixels in one": ([(X[0, :0] / 255, 0), (X[0, :0], 1)], r"train has no images"),
    "one class": ((X, np.zeros(15, int)), r"there is one class \('0'\); at least two are needed"),
    "one-hot": ((X, np.eye(3)[Y]), r"labels of train have shape \(15, 3\); .*one-hot: .argmax\(1\)"),
    "fractions": ((X, Y / 2), r"a label of train is \d.\d; labels are whole numbers or names"),
    "two kinds": ((X, [*Y[:-1].tolist(), "a"]), r"some labels are whole numbers and some are names"),
    "an array alone": (X, r"train is of type ndarray; give a pair \(images, labels\)"),
    "a tensor alone": (tensors(X), r"train is of type Tensor; give a pair"),
    "a name": ("cifar10", r"train is of type str; .*a set by name with moca.load"),
    "no pairs": ([(X[0], 1, 2), (X[1], 2, 3)], r"train\[0\] is not a pair \(image, label\)"),
    "mixed sizes": ([(X[0], 0), (X[1, :4], 1)], r"train\[1\] has 4x8 pixels, images before it 8x8; resize all to one"),
    "bad item": ([(X[0], 0), (X[1] / 1.0, 1)], r"images of train\[1\] are floats from 0 to 25\d"),
    "mode": ([(Image.new("F", (4, 4)), 0), (X[0], 1)], r"train\[0\] cannot be used \(pixels of type F.*convert it"),
    "one image of a class": ((X[:4], [0, 0, 1, 1, 2][:4]), None),
    "a single one": ((X[:3], [0, 0, 1]), r"class '1' has one image; a test set cannot be split off"),
}


@pytest.mark.parametrize("how", WRONG)
def test_what_cannot_be_used_is_one_line(how):
    data, message = WRONG[how]
    if message is None:
        assert len(dataset(data).test) == 2
        return
    with pytest.raises(MocaError, match=message) as error:
        dataset(data)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"classes": ["a", "b"]}, r"label 2 is none of the 2 classes; they count from 0 to 1"),
        ({"classes": ["a", "b", "a"]}, r"two of the classes have one name"),
        ({"classes": ["a", "b", "c", "d"]}, r"class 'd' has no training image"),
        ({"test": (X, Y + 1)}, r"class '3' is in test but not in train"),
        ({"test": (X[Y < 2], Y[Y < 2])}, r"class '2' has no test image"),
        ({"test": (np.zeros((3, 4, 4, 3), np.uint8), [0, 1, 2])}, r"test have 4x4 pixels, those of train 8x8; resize"),
        ({"test": (X, Y[:2])}, r"test has 15 images and 2 labels"),
        ({"test": (X.reshape(15, -1) / 255, Y)}, r"one has images and one has vectors; give both alike"),
        ({"test_share": 1.0}, r"test_share=1.0 is out of range"),
    ],
)
def test_what_does_not_fit_together_is_one_line(more, message):
    with pytest.raises(MocaError, match=message):
        dataset((X, Y), **more)


VECTORS = torch.linspace(-300, 300, 40 * 6).reshape(40, 6).sin().mul(5), torch.arange(40) % 4
VECTOR_FORMS = {
    "tensors": lambda x, y: (x, y),
    "arrays": lambda x, y: (x.double().numpy(), y.numpy()),
    "list": lambda x, y: (list(x), y.tolist()),
    "torch data set": TensorDataset,
    "pairs": lambda x, y: [(row.numpy(), int(c)) for row, c in zip(x, y, strict=True)],
    "in another order": lambda x, y: (x.flip(0), y.flip(0)),
}


@pytest.mark.parametrize("form", VECTOR_FORMS)
def test_vectors_in_any_form_are_one_data_set_normalised_by_number(form):
    data = dataset(VECTOR_FORMS[form](*VECTORS))
    assert repr(data) == "Dataset 'own': 32 training and 8 test vectors of 4 classes, 6x1x1"
    assert data.vectors
    assert data.fingerprint == dataset(VECTORS).fingerprint
    rows = data.train.images.flatten(1)
    torch.testing.assert_close(torch.tensor(data.protocol.mean), rows.mean(0))
    torch.testing.assert_close(torch.tensor(data.protocol.std), rows.std(0, correction=0))
    given = {tuple(row): label for row, label in zip(VECTORS[0].tolist(), VECTORS[1].tolist(), strict=True)}
    assert all(given[tuple(row)] == label for row, label in zip(rows.tolist(), data.train.labels.tolist(), strict=True))


def test_vectors_of_other_lengths_do_not_fit_together():
    with pytest.raises(MocaError, match=r"vectors of test have 5 numbers, those of train 6"):
        dataset(VECTORS, (VECTORS[0][:, :5], VECTORS[1]))


def test_a_run_on_vectors_learns_and_is_a_model(tmp_path):
    """Embeddings of any network, or of text, instead of images."""
    centres = 3 * torch.randn(4, 20, generator=torch.Generator().manual_seed(0))
    y = torch.arange(200) % 4
    x = centres[y] + torch.randn(200, 20, generator=torch.Generator().manual_seed(1))
    options = {"tasks": 2, "device": "cpu", "perturb": "wap", "out": tmp_path / "run"}
    result = moca.run(data=(x, y), **options)
    assert result.final_accuracy > 0.9
    model = moca.load_model(tmp_path / "run", device="cpu")
    assert model.score(x, y) > 0.9
    assert model.learn(x[:20] + 50, y[:20] + 4).score(x[:20] + 50, y[:20] + 4) > 0.9
    assert set(model.classes_) == set("01234567")
    with pytest.raises(MocaError, match="labels are of one kind"):
        moca.ContinualClassifier(epochs=1, device="cpu").learn(x, [f"class {c}" for c in y]).score(x, y)
    with pytest.raises(MocaError, match="labels are of one kind"):
        moca.ContinualClassifier(epochs=1, device="cpu").learn(x, y).learn(x, [f"class {c}" for c in y])


def test_a_name_that_is_no_class_is_told_the_nearest():
    with pytest.raises(MocaError, match=r"label 'bea' is none of the 2 classes; did you mean 'bear'"):
        dataset((X[:4], ["ant", "bea", "ant", "bea"]), classes=["ant", "bear"])


def test_large_arrays_are_copied_once():
    x = np.zeros((20_000, 32, 32, 3), np.float32)
    x[:, 0, 0, 0] = np.arange(20_000) % 256 / 255
    x[:, 0, 0, 1] = np.arange(20_000) // 256 / 255
    tracemalloc.start()
    own = dataset((x, np.arange(20_000) % 2))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < own.train.images.numel() + own.test.images.numel() + (120 << 20) < x.nbytes
