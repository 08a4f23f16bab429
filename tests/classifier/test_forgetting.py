"""A class that is forgotten: nothing of it is left, and nothing else has changed."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from moca import MocaError
from moca.classifier import ContinualClassifier, ModelFolder
from moca.classifier.erasure import forget, without_class
from moca.classifier.lesson import teach
from moca.classifier.record import Lesson
from moca.classifier.renaming import rename
from moca.classifier.summary import forgotten_told, what_it_was
from moca.learners.er import ER
from tests.classifier.conftest import bars, lesson


@pytest.mark.parametrize(
    ("learner", "memory"),
    [("er", 60), ("er", 7), ("derpp", 7), ("icarl", 60), ("lwf", 60), ("teacher:of=derpp", 7), ("xder", 7), ("gss", 7)],
)
def test_the_others_score_as_before(small, learner, memory):
    perturb = "vt" if learner in ("er", "derpp") else "none"
    model = small(learner=learner, perturb=perturb, memory=memory, epochs=1)
    model.learn(*lesson(0, 1, 2)).learn(*lesson(3, 4))
    x, _ = lesson(0, 1, 3, 4, seed=7)
    before, kept = model.decision_function(x), model.memory_contents()
    model.forget(2)
    assert model.classes_.tolist() == [0, 1, 3, 4]
    np.testing.assert_allclose(model.decision_function(x), before[:, [0, 1, 3, 4]], rtol=1e-5, atol=1e-6)
    left = model.memory_contents()
    assert 2 not in left
    for label, images in kept.items():
        if label != 2:
            assert sorted(map(bytes, left[label])) == sorted(map(bytes, images))
    gone = {image.tobytes() for image in kept.get(2, [])}
    if model.learning_.memory is not None:
        rows = model.learning_.memory.fields["image"].permute(0, 2, 3, 1).numpy()
        assert not gone & {row.tobytes() for row in rows}, "also not in slots that nobody reads"


def by_image(model, of_slots):
    """What is known of each stored image."""
    memory = model.learning_.memory
    images = [image.numpy().tobytes() for image in memory.all()["image"]]
    return dict(zip(images, of_slots(model.learning_).tolist()[: len(memory)], strict=True))


@pytest.mark.parametrize(
    ("learner", "of_slots"),
    [
        ("gss", lambda learning: learning.memory.storing.scores),
        ("xder", lambda learning: learning.learner.drawn),
        ("teacher:of=xder", lambda learning: learning.learner.inner.drawn),
    ],
)
def test_what_is_known_of_each_slot_moves_with_its_sample(small, learner, of_slots):
    model = small(learner=learner, perturb="none", memory=20, epochs=1).learn(*lesson(0, 1, 2)).learn(*lesson(3, 4))
    of_slots(model.learning_).copy_(torch.arange(1.0, len(of_slots(model.learning_)) + 1))
    before = by_image(model, of_slots)
    after = by_image(model.forget(1), of_slots)
    assert 1 < len(after) < len(before) == 20
    assert after.items() <= before.items()
    assert not of_slots(model.learning_)[len(after) :].any()


def test_what_only_happens_to_be_as_long_as_the_memory_stays(small):
    """The velocity of BFP's projector has a row a feature, here as many as there are slots."""
    model = small(learner="bfp", perturb="none", memory=8, epochs=1).learn(*lesson(0, 1, 2)).learn(*lesson(3, 4))
    before = model.learning_.learner.velocity.clone()
    assert len(before) == model.learning_.memory.size
    assert before.any(1).all()
    assert model.forget(1).learning_.learner.velocity.equal(before)


class Pairs(ER):
    """Remembers a number of every two classes, and a list of what it knows of each slot and class."""

    remembers = ("pairs", "lists")

    def prepare(self):
        classes = len(self.came)
        self.pairs = torch.arange(classes**2).view(classes, classes)
        self.lists = [torch.arange(self.memory.size), torch.arange(classes)]

    def grow(self, classes):
        super().grow(classes)
        self.pairs = torch.arange(classes**2).view(classes, classes)
        self.lists = [self.lists[0], torch.arange(classes)]


def test_whatever_a_learner_of_ones_own_remembers(small):
    model = small(learner=Pairs(), perturb="none", memory=20, epochs=1).learn(*lesson(0, 1, 2, 3))
    y = model.learning_.memory.fields["y"][:20]
    stay = torch.nonzero(y != 1).flatten().tolist()
    learner = model.forget(1).learning_.learner
    assert learner.pairs.tolist() == [[0, 2, 3], [8, 10, 11], [12, 14, 15]]
    assert learner.lists[0].tolist() == stay + [0] * (20 - len(stay))
    assert learner.lists[1].tolist() == [0, 2, 3]


@pytest.mark.parametrize("learner", ["er", "derpp", "icarl", "lwf"])
def test_it_goes_on_learning(small, learner):
    model = small(learner=learner, perturb="none", epochs=20).learn(*lesson(0, 1, 2)).forget(1).learn(*lesson(3, 4))
    assert model.classes_.tolist() == [0, 2, 3, 4]
    if learner != "lwf":
        assert model.score(*lesson(0, 2, 3, 4, seed=7)) > 0.9
    model.learn(*lesson(1, seed=2))
    assert model.classes_.tolist() == [0, 2, 3, 4, 1]


def test_the_memory_fills_again(small):
    model = small(learner="er", perturb="none", memory=30, epochs=2).learn(*lesson(0, 1, 2))
    model.forget(0)
    held = len(model.learning_.memory)
    assert held == sum(map(len, model.memory_contents().values())) < 30
    model.learn(*lesson(5))
    assert len(model.learning_.memory) == 30
    assert torch.unique(model.learning_.memory.all()["y"]).tolist() == [0, 1, 2]


sequences = st.lists(
    st.one_of(
        st.tuples(st.just("learn"), st.dictionaries(st.integers(0, 4), st.integers(1, 40), min_size=1, max_size=3)),
        st.tuples(st.just("forget"), st.integers(0, 4)),
    ),
    max_size=6,
)


@settings(max_examples=15, deadline=None)
@given(learner=st.sampled_from(["er", "derpp"]), sequence=sequences)
def test_every_class_has_as_even_a_share_of_the_memory_as_its_samples_allow(learner, sequence):
    """Whatever was learnt and forgotten, in whatever numbers: a class holds fewer than another only if it has no
    more."""
    size, model = 30, ContinualClassifier(learner, "none", 30, "mlp:width=4,depth=1", epochs=1, device="cpu")
    held = {0: 0, 1: 0}
    for what, of in [("learn", {0: 30, 1: 3}), *sequence]:
        if what == "forget":
            if of not in held or len(held) == 1:
                continue
            model.forget(of)
            held.pop(of)
            assert {label: len(kept) for label, kept in model.memory_contents().items()} == held
            continue
        labels = np.repeat(list(of), list(of.values()))
        model.learn(np.random.default_rng(0).normal(size=(len(labels), 3)), labels)
        might = held | {label: held.get(label, 0) + count for label, count in of.items()}
        held = {label: len(kept) for label, kept in model.memory_contents().items()}
        assert sum(held.values()) == min(size, sum(might.values()))
        assert min((held[c] for c in might if held[c] < might[c]), default=size) >= max(held.values()) - 1


def test_what_cannot_be_forgotten(small):
    model = small(epochs=1).learn(*lesson(0, 1))
    with pytest.raises(MocaError, match="there is no class 7"):
        model.forget(7)
    assert set(model.forget(1).predict(bars(0, 3))) == {0}
    with pytest.raises(MocaError, match="0 is the only class; remove the model instead"):
        model.forget(0)


def test_in_every_version(folder, tmp_path):
    model = ModelFolder(tmp_path / "model")
    options = {"encoder": "convnet:width=4,features=8", "epochs": 3, "memory": 60}
    teach(model, folder("jan", 0, 1, 2), options=options, held_out=0.2, device="cpu")
    teach(model, folder("feb", 3), held_out=0.2, tolerate=1, device="cpu")
    assert forget(model, "bar 1", device="cpu") == 3
    lesson = model.about()["lesson"]
    assert lesson["forgot"] == "bar 1"
    assert [(name, held) for name, _, held in lesson["correct"]] == [("bar 0", 4), ("bar 2", 4), ("bar 3", 4)]
    assert "bar 1" in model.about(1)["classes"]
    assert forget(model, "bar 2", all_versions=True, device="cpu") == 4
    secret = {image.tobytes() for image in bars(2, 20)}
    for about in model.versions:
        assert "bar 2" not in about["classes"]
        classifier = model.load(ContinualClassifier, about["version"], device="cpu")
        kept = classifier.kept_
        images = [*kept.images, *classifier.learning_.memory.fields["image"]]
        assert not secret & {image[0].numpy().tobytes() for image in images}
        assert "bar 2" not in kept.labels + kept.seen_of
    january = folder("jan", 2)
    skipped = teach(model, january, held_out=0.2, tolerate=1, device="cpu")
    assert (skipped.forgotten, skipped.images, skipped.known) == (40, 0, 20)
    again = teach(model, january, held_out=0.2, tolerate=1, relearn=True, device="cpu")
    assert again.new_classes == ["bar 1", "bar 2"], "January's folder has both, and what was forgotten is new"


def test_a_growing_folder_does_not_bring_back_what_was_forgotten(folder, tmp_path):
    model = ModelFolder(tmp_path / "model")
    everything = folder("all", 0, 1, 2, count=5)
    teach(model, everything, options=QUICK, device="cpu")
    forget(model, "bar 1", all_versions=True, device="cpu")
    folder("all", 0, 3, count=5, seed=1)
    said = []
    grown = teach(model, everything, tolerate=1, device="cpu", say=said.append)
    assert (grown.forgotten, grown.new_classes, grown.came_again, said) == (5, ["bar 3"], ["bar 0"], [])
    assert forgotten_told(grown) == (
        "5 images were forgotten with their class and skipped; --relearn teaches them after all."
    )
    folder("all", 1, count=5, seed=1)
    assert teach(model, everything, tolerate=1, device="cpu").new_classes == ["bar 1"], "other images are new"
    (everything / "bar 1").rename(everything / "ring")
    right = teach(model, everything, tolerate=1, device="cpu")
    assert (right.forgotten, right.new_classes) == (0, ["ring"]), "a class that was forgotten for its wrong name"
    assert right.otherwise == {"bar 1": 5}


@pytest.mark.parametrize("all_versions", [False, True])
def test_a_growing_folder_does_not_bring_back_what_was_renamed_and_forgotten(folder, tmp_path, all_versions):
    model = ModelFolder(tmp_path / "model")
    everything = folder("all", 0, 1, 2, count=5)
    teach(model, everything, options=QUICK, device="cpu")
    rename(model, "bar 1", "rod")
    rename(model, "rod", "pole")
    forget(model, "pole", all_versions=all_versions, device="cpu")
    again = teach(model, everything, tolerate=1, device="cpu")
    assert (again.forgotten, again.images, again.known) == (5, 0, 10)


def test_a_class_that_only_one_earlier_version_has(folder, tmp_path):
    model = ModelFolder(tmp_path / "model")
    teach(model, folder("jan", 0, 1, count=5), options=QUICK, device="cpu")
    forget(model, "bar 1", device="cpu")
    with pytest.raises(MocaError, match="; version 1 still has it; --all-versions removes it from there too"):
        forget(model, "bar 1", device="cpu")


QUICK = {"encoder": "convnet:width=4,features=8", "epochs": 1, "memory": 30}


def test_in_every_version_its_name_is_gone_too(folder, tmp_path):
    """Also from lessons that named it otherwise: as known, as corrected, with files of it, as forgotten."""
    model = ModelFolder(tmp_path / "model")
    january = folder("jan", 0, 1, 2)
    (january / "bar 1" / "broken.png").write_bytes(b"no image")
    (january / "bar 1" / "copy.png").write_bytes((january / "bar 1" / "0-3.png").read_bytes())
    (january / "bar 2" / "both.png").write_bytes((january / "bar 1" / "0-4.png").read_bytes())
    first = teach(model, january, options=QUICK, held_out=0.2, device="cpu")
    assert len(first.left_out) == 1 and first.first_copy and first.first_twice
    february = folder("feb", 1, count=10, seed=1)
    (february / "bar 3").mkdir()
    (january / "bar 1" / "0-5.png").rename(february / "bar 3" / "was another.png")
    assert teach(model, february, held_out=0.2, tolerate=1, device="cpu").first_otherwise.endswith("was another.png")
    teach(model, folder("mar", 1, count=10, seed=2), held_out=0.2, tolerate=1, device="cpu")
    forget(model, "bar 1", device="cpu")
    assert model.about()["lesson"]["forgot"] == "bar 1"
    folder("apr", 4, count=5)
    teach(model, folder("apr", 1, count=5, seed=3), held_out=0.2, tolerate=1, device="cpu")
    records = [path.read_text() for path in model.path.rglob("*.json")]
    assert sum("bar 1" in record for record in records) == 5
    assert not any(".png" in record for record in records), "files are named when a lesson ends, and not kept"
    assert forget(model, "bar 1", all_versions=True, device="cpu") == 6
    assert not [path for path in model.path.rglob("*.json") if "bar 1" in path.read_text()]
    assert [what_it_was(about) for about in model.versions] == [
        "+ bar 0, bar 2", "+ bar 3", "a class since forgotten", "forgot a class", "+ bar 4", "forgot a class",
    ]  # fmt: skip
    options = {name: str(value) for name, value in QUICK.items()}
    assert [about["options"] for about in model.versions] == [options] * 6


def test_texts_that_an_earlier_moca_recorded_go_with_any_class(folder, tmp_path):
    model = ModelFolder(tmp_path / "model")
    teach(model, folder("jan", 0, 1, count=5), options=QUICK, device="cpu")
    teach(model, folder("feb", 2, count=5), tolerate=1, device="cpu")
    for number, texts in ((1, {"left_out": ["jan/bob/anna_02.png"]}), (2, {"first_copy": ["feb/Anna/1.png", "2.png"]})):
        path = model.path / "versions" / str(number) / "about.json"
        about = json.loads(path.read_text())
        path.write_text(json.dumps(about | {"lesson": about["lesson"] | texts}))
    forget(model, "bar 2", all_versions=True, device="cpu")
    assert not [path for path in model.path.rglob("*.json") if "png" in path.read_text()]
    assert model.taught_in() == {"bar 0": 1, "bar 1": 1}


def test_a_lesson_that_no_longer_names_a_class():
    lesson = Lesson(9, new_classes=["ring", "cube"], correct=[("ring", 1, 2), ("cube", 2, 2)], otherwise={"ring": 1})
    left = Lesson(9, new_classes=["cube"], correct=[("cube", 2, 2)])
    assert without_class(lesson, "ring") == left
    assert without_class(left, "ring") == left
    assert without_class(Lesson(forgot=7), 7) == Lesson(forgot="a class")


def test_a_removal_that_fails_halfway_says_what_was_done_and_can_be_repeated(folder, tmp_path, monkeypatch):
    model = ModelFolder(tmp_path / "model")
    teach(model, folder("jan", 0, 1, 2, count=5), options=QUICK, held_out=0.2, device="cpu")
    teach(model, folder("feb", 3, count=5), held_out=0.2, tolerate=1, device="cpu")
    write = ModelFolder._write

    def full(self, facts, classifier, use):
        if facts["version"] == 2:
            (self.path / "versions" / "2.part").touch()  # where a folder is to be made
        return write(self, facts, classifier, use)

    with monkeypatch.context() as patched:
        patched.setattr(ModelFolder, "_write", full)
        with pytest.raises(MocaError) as failed:
            forget(model, "bar 1", all_versions=True, device="cpu")
    assert str(failed.value) == (
        f"model '{model.path}' cannot be written: File exists; version 2 is unchanged; version 3, which is in use, is "
        "without 'bar 1'; to remove it from the others too, repeat the command"
    )
    (model.path / "versions" / "2.part").unlink()
    assert ["bar 1" in about["classes"] for about in model.versions] == [False, True, False]
    assert forget(model, "bar 1", all_versions=True, device="cpu") == 3
    assert not any("bar 1" in about["classes"] for about in model.versions)


def test_a_removal_of_which_a_record_fails_can_be_repeated_too(folder, tmp_path, monkeypatch):
    """Version 2 only names the class, and what has it is what a repetition is known by."""
    model = ModelFolder(tmp_path / "model")
    teach(model, folder("jan", 0, 1, 2, count=5), options=QUICK, device="cpu")
    forget(model, "bar 1", device="cpu")

    def full(self, version, lesson):
        raise MocaError("No space left on device")

    with monkeypatch.context() as patched, pytest.raises(MocaError, match=r"^No space .*repeat the command"):
        patched.setattr(ModelFolder, "rewrite_lesson", full)
        forget(model, "bar 1", all_versions=True, device="cpu")
    assert forget(model, "bar 1", all_versions=True, device="cpu") == 2
    assert not [path for path in model.path.rglob("*.json") if "bar 1" in path.read_text()]


def test_a_version_whose_rewrite_was_killed_is_restored_or_settled_by_the_next_change(folder, tmp_path):
    model = ModelFolder(tmp_path / "model")
    options = {"encoder": "convnet:width=4,features=8", "epochs": 1, "memory": 30}
    teach(model, folder("jan", 0, 1), options=options, held_out=0.2, device="cpu")
    versions = model.path / "versions"
    (versions / "1").replace(versions / "1.before")  # killed before the new one was in its place
    with model.teaching():
        assert model.about(1)["classes"] == ["bar 0", "bar 1"]
    (versions / "1.before").mkdir()  # killed after that
    with model.teaching():
        assert [place.name for place in versions.iterdir()] == ["1"]
