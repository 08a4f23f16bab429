"""A classifier that keeps learning: what it knows, in whatever form images and labels come."""

import time
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import moca
from moca import MocaError
from moca.classifier import ContinualClassifier, classifier, images
from moca.errors import MocaWarning
from moca.learners.er_ace import ERACE
from moca.perturb.gaussian import Gaussian
from tests.classifier.conftest import SIDE, bars, lesson


def test_classes_arrive_and_none_is_forgotten(small):
    model = small(epochs=20)
    for labels in ((0, 1), (2, 3), (4, 5)):
        model.learn(*lesson(*labels))
    assert model.classes_.tolist() == [0, 1, 2, 3, 4, 5]
    x, y = lesson(*range(6), seed=7)
    assert model.score(x, y) > 0.9
    assert (model.predict(x) == y).mean() == model.score(x, y)


def test_without_memory_they_would_be(small):
    model = small(learner="finetune", perturb="none", epochs=20)
    for labels in ((0, 1), (2, 3)):
        model.learn(*lesson(*labels))
    assert model.score(*lesson(0, 1, seed=7)) < 0.2


def test_a_teacher_follows_lessons_of_few_steps(small):
    """With the decay of its paper it knows nothing of the newest classes."""
    model = small(learner="teacher:of=er_ace", epochs=None)
    for labels in ((0, 1), (2, 3), (4, 5)):
        model.learn(*lesson(*labels))
    assert model.score(*lesson(4, 5, seed=7)) > 0.9


@pytest.mark.parametrize("images", [20, 32, 33, 65])
def test_few_images_are_as_many_steps(images):
    """In batches of 32, of which none is a last image by itself."""
    steps, model = [], ContinualClassifier("er", "none", 30, "mlp:width=2,depth=1", device="cpu")
    x = np.random.default_rng(0).normal(size=(images, 3))
    model.learn(x, np.arange(images) % 2, watch=lambda *told: steps.append(told))
    assert steps[-1] == ("learning", 150, 150)


def test_probabilities(small):
    model = small().learn(*lesson(0, 1, 2))
    x, _ = lesson(0, 1, 2, seed=7)
    shares = model.predict_proba(x)
    assert shares.shape == (60, 3)
    np.testing.assert_allclose(shares.sum(1), 1, rtol=1e-5)
    assert (model.classes_[shares.argmax(1)] == model.predict(x)).all()


@pytest.mark.parametrize("learner", ["er", "teacher:of=er", "teacher:of=er,form=mkd"])
def test_features_are_those_that_predictions_are_made_from(small, learner):
    model = small(learner=learner).learn(*lesson(0, 1)).learn(*lesson(2, 3))
    x, _ = lesson(0, 1, 2, 3, seed=7)
    head = model.learning_.learner.tested_model().head.eval()
    logits = head(torch.from_numpy(model.features(x))).detach().numpy()
    np.testing.assert_allclose(logits, model.decision_function(x), atol=1e-5)


def test_an_old_class_comes_again_and_counts_once(small):
    model = small(epochs=20).learn(*lesson(0, 1)).learn(*lesson(1, 2, seed=1)).learn(*lesson(0, seed=2))
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.score(*lesson(0, 1, 2, seed=7)) > 0.9


def test_what_is_held_out_to_adjust_by_is_kept_and_forgotten_with_the_rest(small, tmp_path):
    model = small(learner="er:adjust=auto", perturb="none", memory=40).learn(*lesson(0, 1)).learn(*lesson(2, 3))
    held = model.learning_.held
    assert held.y.unique().tolist() == [0, 1, 2, 3]
    assert held.multiple == model.learning_.learner.adjusts_by != 0
    x, _ = lesson(0, 1, 2, 3, seed=7)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(
        moca.load_model(tmp_path / "model", device="cpu").decision_function(x), model.decision_function(x)
    )
    model.forget(1)
    assert model.learning_.held.y.unique().tolist() == [0, 1, 2]
    assert model.learning_.learner.adjusts_by == held.multiple
    model.learn(*lesson(4, seed=1))
    few, labels = lesson(5, seed=2)
    model.learn(few[:8], labels[:8])
    assert 4 not in model.learning_.held.y, "of eight images none can be spared"


def test_images_of_unknown_classes_are_told_with_what_they_may_be(small):
    x, y = lesson(0, 1)
    model = small().learn(x, [("bird", "cat")[label] for label in y])
    told = (
        r"^20 of 40 images are of 1 class that the model does not know \(Bird\) and count as wrong; 'Bird' is spelt "
        "almost like 'bird'$"
    )
    with pytest.warns(MocaWarning, match=told):
        score = model.score(x, [("Bird", "cat")[label] for label in y])
    assert score == model.score(x[20:], ["cat"] * 20) / 2


def test_names_as_labels(small):
    x, y = lesson(0, 1)
    model = small().learn(x, [("pear", "apple")[label] for label in y])
    assert model.classes_.tolist() == ["apple", "pear"]
    model.learn(bars(2, 20), ["banana"] * 20)  # alone
    assert model.classes_.tolist() == ["apple", "pear", "banana"], "those that came before keep their places"
    assert model.predict(bars(0, 5, seed=7)).tolist() == ["pear"] * 5


@pytest.fixture(scope="module")
def taught(small):
    return small().learn(*lesson(0, 1))


@pytest.mark.parametrize(
    "form", ["uint8", "float", "tensor", "channels", "pictures", "files", "names", "contents", "pairs", "folder"]
)
def test_images_in_any_form_are_the_same_images(small, taught, folder, tmp_path, form):
    (x, y), model = lesson(0, 1), taught
    if form == "folder":
        place = folder("all", 0, 1)
        given = sorted(str(f) for f in place.rglob("*.png"))
        assert model.predict(place).tolist() == model.predict(given).tolist()
        return
    files = []
    for number, image in enumerate(x):
        Image.fromarray(image).save(tmp_path / f"{number}.png")
        files.append(tmp_path / f"{number}.png")
    forms = {
        "uint8": x,
        "float": x / 255,
        "tensor": torch.from_numpy(x)[:, None],
        "channels": x[..., None],
        "pictures": [Image.fromarray(image) for image in x],
        "files": files,
        "names": np.array(list(map(str, files))),
        "contents": [file.read_bytes() for file in files],
        "pairs": x,
    }
    np.testing.assert_allclose(model.decision_function(forms[form]), model.decision_function(x), atol=1e-5)
    if form == "pairs":
        again = small().learn([(image, label) for image, label in zip(x, y.tolist(), strict=True)])
        np.testing.assert_array_equal(again.decision_function(x), model.decision_function(x))


def test_other_sizes_and_colour_are_brought_to_what_it_knows(small):
    model = small().learn(*lesson(0, 1))
    large = [
        Image.fromarray(image).resize((40, 40), Image.Resampling.NEAREST).convert("RGB") for image in bars(0, 5, 7)
    ]
    assert model.predict(large).tolist() == [0] * 5


def test_one_image_is_one_image_as_an_array_too(small):
    x, y = lesson(0, 1)
    colour = np.repeat(x[..., None], 3, axis=3)
    model = small(epochs=5).learn(colour, y)
    clear = np.concatenate([colour[0], colour[0][..., :1]], axis=2)
    channels_first = torch.from_numpy(colour[0]).permute(2, 0, 1)
    for same in (colour[0], torch.from_numpy(colour[0]), channels_first, clear):
        one = Image.fromarray(clear if same is clear else colour[0])
        np.testing.assert_array_equal(model.decision_function(same), model.decision_function(one))
    assert model.predict(x[:3]).shape == (3,), "grey images are as many as there are"
    assert model.score(torch.from_numpy(x[:3]), y[:3]) == np.mean(model.predict(x[:3]) == y[:3]), "as are labels"


def test_images_that_are_read_at_once_keep_their_order_and_errors(tmp_path):
    files = [str(tmp_path / f"{number}.png") for number in range(30)]
    for number, file in enumerate(files):  # the first take longest
        Image.new("L", (900 - 30 * number,) * 2, number).save(file)
    for number in (3, 17):
        Path(files[number]).write_bytes(b"no image")
    told = []
    found, errors = images.readable(files, (1, 4, 6), None, lambda *stage: told.append(stage))
    assert {image.shape for image in found} == {(4, 6, 1)}, "large ones would not fit in RAM"
    assert [image[0, 0, 0] for image in found] == [number for number in range(30) if number not in (3, 17)]
    assert [(number, files[number] in str(error)) for number, error in errors.items()] == [(3, True), (17, True)]
    assert told == [("reading images", done, 30) for done in range(1, 31)]
    with pytest.raises(MocaError, match=r"3\.png' cannot be used"):
        images.pictures(files, (1, 4, 4))


def test_reading_stops_at_once(tmp_path, monkeypatch):
    """After Ctrl-C, images that have not begun to be read are not."""
    begun, read = [], images._read
    monkeypatch.setattr(images, "_read", lambda *given: begun.append(time.sleep(0.005)) or read(*given))
    Image.new("L", (4, 4)).save(tmp_path / "1.png")

    def stopped(*stage):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        images.readable([str(tmp_path / "1.png")] * 1000, None, None, stopped)
    assert len(begun) < 100


def test_one_file_as_its_content(taught, tmp_path):
    Image.fromarray(bars(0, 1)[0]).save(tmp_path / "1.png")
    content = (tmp_path / "1.png").read_bytes()
    np.testing.assert_array_equal(taught.decision_function(content), taught.decision_function(tmp_path / "1.png"))


def test_a_loader_is_told_to_give_its_images(taught):
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.from_numpy(bars(0, 4))))
    with pytest.raises(MocaError, match=r"a DataLoader holds no images; .* \(of a DataLoader the images of a batch\)"):
        taught.predict(loader)


def test_left_and_right_can_be_told_apart(small, tmp_path):
    """Grey files are read as colour, but are not mirrored; where colour is not to be, one can say so."""
    x, y = np.concatenate([bars(1, 20), bars(1, 20)[:, :, ::-1]]), ["left"] * 20 + ["right"] * 20
    for number, (image, label) in enumerate(zip(x, y, strict=True)):
        (tmp_path / label).mkdir(exist_ok=True)
        Image.fromarray(image).save(tmp_path / label / f"{number}.png")
    colour = np.stack([x, x, x // 2], axis=3)
    assert small(epochs=20).learn(tmp_path).score(tmp_path) == 1
    plain = small(augment=False, epochs=20).learn(colour, y)
    assert plain.score(colour, y) == 1
    plain.save(tmp_path / "kept")
    assert not moca.load_model(tmp_path / "kept", device="cpu").learning_.transform.flip
    assert small(epochs=1).learn(colour, y).learning_.transform.flip


def test_photographs_are_brought_to_a_handy_size(small, tmp_path):
    for label in (0, 1):
        (tmp_path / str(label)).mkdir()
        for number in range(3):
            Image.new("RGB", (90, 70), (40 * label, 0, number)).save(tmp_path / str(label) / f"{number}.jpg")
    model = small(epochs=1).learn(tmp_path)
    assert model.shape_ == (3, 32, 32)
    assert small(epochs=1, image_size=20).learn(tmp_path).shape_ == (3, 20, 20)
    (tmp_path / "0" / "0.jpg").write_bytes(b"no image")
    with pytest.warns(UserWarning, match="1 of 6 images left out"):
        assert small(epochs=1).learn(tmp_path).shape_ == (3, 32, 32), "also where the first one is broken"


def test_photographs_do_not_pile_up_behind_a_small_first_image(small, tmp_path, monkeypatch):
    held, shaped = [], images._shaped
    monkeypatch.setattr(images, "_shaped", lambda images, *a: held.extend(images) or shaped(images, *a))
    for label, side in ((0, 20), (1, 90)):
        (tmp_path / str(label)).mkdir()
        for number in range(3):
            Image.new("RGB", (side, side), (40 * label, 0, number)).save(tmp_path / str(label) / f"{number}.png")
    assert small(epochs=1).learn(tmp_path).shape_ == (3, 32, 32)
    assert [len(image) for image in held[:6]] == [20] * 3 + [32] * 3


def test_the_memory_holds_each_image_once(small):
    x, y = lesson(0, 1, count=15)
    contents = small(memory=100).learn(x, y).memory_contents()
    assert {label: len(images) for label, images in contents.items()} == {0: 15, 1: 15}
    assert len({image.tobytes() for images in contents.values() for image in images}) == 30


def test_fit_begins_anew_and_partial_fit_goes_on(small):
    model = small().fit(*lesson(0, 1)).partial_fit(*lesson(2))
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.fit(*lesson(3, 4)).classes_.tolist() == [3, 4]


def test_as_an_estimator(small):
    model = small(memory=33, learner="derpp")
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert copy.set_params(memory=10).memory == 10
    flat = make_pipeline(FunctionTransformer(lambda x: x.reshape(-1, SIDE, SIDE)), small(epochs=20))
    x, y = lesson(0, 1)
    assert flat.fit(x.reshape(len(x), -1), y).score(x.reshape(len(x), -1), y) > 0.9


def test_a_model_is_tuned_by_the_optimiser_and_learning_rate_that_it_was_given(small, tmp_path):
    """AdamW with a learning rate so small that the encoder hardly moves, also in the second lesson and after saving."""
    model = small(optimiser="adamw:weight_decay=0", lr=1e-6).learn(*lesson(0, 1))
    start = {name: tensor.clone() for name, tensor in model.learning_.model.encoder.named_parameters()}
    model.save(tmp_path / "kept")
    again = moca.load_model(tmp_path / "kept", device="cpu")
    assert (again.optimiser, again.lr) == ("adamw:weight_decay=0.0", 1e-6)
    for one in (model, again):
        one.learn(*lesson(2))
        assert isinstance(one.learning_.optimiser, torch.optim.AdamW)
        moved = [(tensor - start[name]).abs().max() for name, tensor in one.learning_.model.encoder.named_parameters()]
        assert 0 < max(moved) < 1e-4, "at most a learning rate a step"


def test_the_same_seed_the_same_classifier(small):
    one, other = (small(seed=3).learn(*lesson(0, 1)).learn(*lesson(2, 3)) for _ in range(2))
    x, _ = lesson(0, 1, 2, 3, seed=7)
    np.testing.assert_array_equal(one.decision_function(x), other.decision_function(x))


@pytest.mark.parametrize("learner", ["derpp", "icarl", "lwf", "teacher:of=er"])
def test_kept_and_taken_up_it_goes_on_as_if_nothing_had_happened(small, tmp_path, learner):
    perturb = "vt" if learner == "derpp" else "none"
    model = small(learner=learner, perturb=perturb, epochs=2).learn(*lesson(0, 1))
    model.save(tmp_path / "kept")
    again = ContinualClassifier.load(tmp_path / "kept", device="cpu")
    for one in (model, again):
        one.learn(*lesson(2, 3)).learn(*lesson(0, 4, seed=1))
    x, _ = lesson(0, 1, 2, 3, 4, seed=7)
    np.testing.assert_array_equal(model.decision_function(x), again.decision_function(x))
    assert again.classes_.tolist() == model.classes_.tolist()


@pytest.mark.parametrize("learner", ["er:", "bic:hold=2,", "pass:", "teacher:of=er,"])
def test_the_lead_of_the_last_lesson_is_taken_in_whichever_way_it_predicts(small, tmp_path, learner):
    model = small(learner=f"{learner}adjust=0.5", perturb="none", epochs=1).learn(*lesson(0, 1, 2)).learn(*lesson(3))
    x, _ = lesson(0, 1, 2, 3, seed=7)
    scores = model.decision_function(x)
    model.save(tmp_path / "kept")
    again = ContinualClassifier.load(tmp_path / "kept", device="cpu")
    np.testing.assert_array_equal(again.decision_function(x), scores)
    model.learning_.learner.adjusts_by = 0.0
    taken = model.decision_function(x) - scores
    np.testing.assert_allclose(taken, np.tile([0, 0, 0, 0.5 * np.log(1 + 4 / 1)], (len(x), 1)), atol=1e-5)


def test_a_finished_run_is_one(tmp_path):
    run = moca.run(model="convnet:width=4", epochs=3, tasks=2, memory=50, device="cpu", out=tmp_path / "run")
    model = moca.load_model(run.folder, device="cpu")
    assert isinstance(model, ContinualClassifier)
    digits = moca.load("digits")
    assert model.classes_.tolist() == list(digits.classes)
    labels = [digits.classes[c] for c in digits.test.labels.tolist()]
    assert model.score(digits.test.images, labels) == pytest.approx(run.final_accuracy, abs=0.02)
    model.learn(np.zeros((8, 8, 8), np.uint8), ["black"] * 8)
    assert model.classes_.tolist() == [*digits.classes, "black"]


@pytest.mark.parametrize(
    ("images", "labels", "said"),
    [
        (bars(0, 4), [0] * 4, "all of one class"),
        (bars(0, 4), [0, 1], "4 images and 2 labels"),
        (bars(0, 4), None, "give a pair"),
        ([], [], "no images"),
        ("nowhere", None, "is not there"),
        (["nowhere.png"], ["a"], "'nowhere.png' cannot be used: there is no such file"),
        (np.full((2, 4, 4), 7.0), [0, 1], "not from 0 to 1"),
        (bars(0, 2), [0.5, 1.5], "labels are whole numbers or names"),
        ((image for image in bars(0, 2)), [0, 1], "a generator holds no images; give an array, a tensor, pictures"),
        (b"no image", ["a"], r"'data\[0\]' cannot be used: not an image of a known format"),
    ],
)
def test_bad_lessons(small, images, labels, said):
    model = small()
    with pytest.raises(MocaError, match=said):
        model.learn(images, labels)
    with pytest.raises(MocaError, match="learnt nothing yet"):
        model.predict(bars(0, 1))


def test_options_are_not_changed_between_lessons(small, tmp_path):
    model = small(epochs=1, perturb=Gaussian()).learn(*lesson(0, 1, count=4))
    model.set_params(memory=10, lr=0.1)
    with pytest.raises(MocaError, match="memory=, lr= cannot be changed after the first lesson; set it back, or use"):
        model.learn(*lesson(2, count=4))
    model.set_params(memory=60, lr=None, epochs=2).learn(*lesson(2, count=4))
    assert (model.epochs_, model.classes_.tolist()) == (2, [0, 1, 2])
    assert model.set_params(memory=10).fit(*lesson(0, 1, count=8)).learning_.memory.size == 10
    model.save(tmp_path / "kept")
    loaded = moca.load_model(tmp_path / "kept", device="cpu").learn(*lesson(3, count=4))
    with pytest.raises(MocaError, match="seed= cannot be changed"):
        deepcopy(loaded).set_params(seed=7).learn(*lesson(4, count=4))


@pytest.mark.filterwarnings("always::moca.errors.MocaWarning")
def test_a_memory_with_fewer_places_than_classes_is_told(small, recwarn):
    model = small(epochs=1, memory=3).learn(*lesson(0, 1, count=4)).learn(*lesson(2, count=4))
    small(epochs=1, memory=3, learner="lwf", perturb="none").learn(*lesson(0, 1, 2, 3, count=4))
    assert not recwarn, "or has none"
    told = "the memory has 3 places for 4 classes, so some classes are not replayed; begin a model with a larger memory"
    with pytest.warns(MocaWarning, match=told):
        model.learn(*lesson(3, count=4))


def test_a_lesson_has_at_least_one_pass(small):
    with pytest.raises(MocaError, match="epochs = 0: must be 1 or more"):
        small(epochs=0).learn(*lesson(0, 1))


def test_a_learner_that_needs_all_at_once_is_refused(small):
    with pytest.raises(MocaError, match="'joint' needs all classes at once"):
        small(learner="joint", perturb="none").learn(*lesson(0, 1))


@pytest.mark.parametrize(
    ("learner", "perturb"), [("er_ace", "gaussian:lambda=0.5"), ("icarl", "none"), ("lwf", "none")]
)
def test_a_learner_that_takes_no_perturbation_has_none_unless_it_is_asked_for(small, learner, perturb):
    model = small(learner=learner, epochs=1)
    assert str(model.learn(*lesson(0, 1, count=4)).settings_.perturb) == perturb
    if perturb == "none":
        with pytest.raises(MocaError, match="cannot take 'gaussian'"):
            small(learner=learner, perturb="gaussian").learn(*lesson(0, 1, count=4))


def test_a_first_lesson_that_fails_leaves_nothing_and_the_next_one_begins(small, monkeypatch):
    model, original = small(epochs=2), classifier._finite
    monkeypatch.setattr(classifier, "_finite", lambda losses: False)
    with pytest.raises(MocaError, match="no longer a finite number; begin with another learner"):
        model.learn(*lesson(0, 1))
    with pytest.raises(MocaError, match="learnt nothing yet"):
        model.predict(bars(0, 1))
    monkeypatch.setattr(classifier, "_finite", original)
    again, fresh = model.learn(*lesson(2, 3)), small(epochs=2).learn(*lesson(2, 3))
    assert again.classes_.tolist() == [2, 3]
    np.testing.assert_array_equal(again.decision_function(bars(2, 3)), fresh.decision_function(bars(2, 3)))


def test_threads_that_ask_take_turns(small):
    """Meanwhile it is in evaluation mode, and where it computes in bfloat16 its weights are others."""
    model = small(encoder="resnet18:width=4", epochs=1).learn(*lesson(0, 1, 2))
    network = model.learning_.model
    network.bf16 = True
    asked = [bars(n % 3, 1 + n % 4, seed=n) for n in range(8)]
    alone, before = [model.decision_function(some) for some in asked], network.state_dict()
    with ThreadPoolExecutor(4) as askers:
        for told, expected in zip(askers.map(model.decision_function, asked * 6), alone * 6, strict=True):
            np.testing.assert_array_equal(told, expected)
    assert all(isinstance(p, torch.nn.Parameter) and p.dtype == torch.float32 for p in network.parameters())
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())


def test_a_lesson_that_is_stopped_leaves_the_classifier_as_it_was(small):
    """Also where a class came in it, whose number the next lesson gives to another."""
    model, fresh = (small(epochs=5).learn(*lesson(0, 1)) for _ in range(2))

    def stop(stage, done, total):
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.learn(*lesson(2), watch=stop)
    assert model.classes_.tolist() == [0, 1]
    assert set(model.memory_contents()) == {0, 1}
    for one in (model, fresh):
        one.learn(*lesson(3))
    np.testing.assert_array_equal(model.decision_function(bars(3, 3)), fresh.decision_function(bars(3, 3)))
    assert {name: len(images) for name, images in model.memory_contents().items()} == {
        name: len(images) for name, images in fresh.memory_contents().items()
    }


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize(("learner", "perturb"), [("er_ace", "gaussian"), ("er:adjust=auto", "vt"), ("ewc", "none")])
def test_a_model_that_was_kept_learns_on_on_a_gpu(small, tmp_path, learner, perturb):
    options = {"learner": learner, "perturb": perturb, "device": "cuda"}
    model = small(**options).learn(*lesson(0, 1))
    model.save(tmp_path / "model")
    again = moca.load_model(tmp_path / "model")
    for one in (model, again):
        one.learn(*lesson(2))
    np.testing.assert_allclose(again.decision_function(bars(2, 3)), model.decision_function(bars(2, 3)), rtol=1e-3)


def test_a_run_that_came_to_know_only_some_classes_is_a_model(tmp_path):
    moca.run(tasks=(2, 2), classes="unknown", epochs=1, out=tmp_path / "some", device="cpu")
    assert moca.load_model(tmp_path / "some", device="cpu").classes_.tolist() == ["0", "1", "2", "3"]
    assert "confusion" in moca.analyse(tmp_path / "some", device="cpu").analyses


def test_a_lesson_of_few_images_is_not_short(small):
    told = []
    model = small(epochs=1).learn(*lesson(0, 1))
    model.epochs = None
    model.learn(*lesson(2, count=6), watch=lambda stage, done, total: told.append(total))
    assert told == [150] * 150

    def enough(stage, done, total):
        raise EOFError(total)

    for count in (1, 20):
        with pytest.raises(EOFError, match=r"^150$"):
            deepcopy(model).learn(*lesson(3, count=count), watch=enough)


def test_a_learner_and_a_perturbation_of_python_are_handed_in_again(small, tmp_path):
    class Mine(ERACE):
        pass

    class Noise(Gaussian):
        pass

    model = small(learner=Mine(), perturb=Noise(lam=0.3), epochs=1).learn(*lesson(0, 1))
    model.save(tmp_path / "model")
    with pytest.raises(MocaError, match=r"for a model moca.load_model\(folder, ...\)"):
        moca.load_model(tmp_path / "model", device="cpu")
    again = moca.load_model(tmp_path / "model", device="cpu", learner=Mine(), perturb=Noise(lam=0.3))
    x, _ = lesson(0, 1, seed=1)
    np.testing.assert_array_equal(again.predict(x), model.predict(x))
    assert isinstance(again.learn(*lesson(2)).learning_.learner, Mine)


def test_a_class_of_python_that_is_handed_in_again_has_the_options_that_the_recipe_gave_it(small, tmp_path):
    class Noise(Gaussian):
        pass

    model = small(perturb=Noise, epochs=1).learn(*lesson(0, 1))
    model.save(tmp_path / "model")
    again = moca.load_model(tmp_path / "model", device="cpu", perturb=Noise)
    assert again.settings_.perturb.lam == model.settings_.perturb.lam != Noise().lam
    x, _ = lesson(0, 1, 2, seed=1)
    scores = [one.learn(*lesson(2)).decision_function(x) for one in (model, again)]
    np.testing.assert_array_equal(*scores)
