"""Lessons: what is new is learnt, every one is a version, and harm is not put to use."""

import errno
import json
import os
import resource
import shutil
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import moca
from moca import MocaError
from moca.classifier import ContinualClassifier, ModelFolder
from moca.classifier.classifier import Classifier
from moca.classifier.erasure import forget
from moca.classifier.facts import facts_of
from moca.classifier.images import digests_of
from moca.classifier.lesson import _tolerable, surely_lost, teach
from moca.classifier.record import Lesson
from moca.classifier.remarks import alike_told, not_read_told
from moca.classifier.renaming import rename
from moca.classifier.summary import copies_told, twice_told
from moca.classifier.tested import examine
from moca.errors import MocaWarning
from tests.classifier.conftest import bars, lesson

OPTIONS = {"perturb": "none", "encoder": "convnet:width=4,features=8", "epochs": 8, "memory": 60}


@pytest.fixture
def model(tmp_path):
    return ModelFolder(tmp_path / "model")


def test_a_month_after_the_other(model, folder):
    first = teach(model, folder("jan", 0, 1), options=OPTIONS | {"epochs": 25}, device="cpu")
    assert (first.images, first.held, first.known, first.new_classes) == (36, 4, 0, ["bar 0", "bar 1"])
    assert (first.old_before, first.version, first.used) == (None, 1, True)
    assert first.new_after >= 0.75
    second = teach(model, folder("feb", 2, 3), device="cpu")
    assert second.new_classes == ["bar 2", "bar 3"]
    assert second.old_before == first.new_after
    assert second.old_after >= 0.75
    assert model.about()["lesson"]["old_after"] == second.old_after
    assert [v["version"] for v in model.versions] == [1, 2]
    assert model.current == 2


def test_classes_that_the_accuracy_hides_are_named(model):
    images = np.concatenate([bars(0, 100), bars(0, 10, seed=1), bars(2, 3)])  # "some" looks like "many"
    labels = np.repeat(["many", "some", "few"], [100, 10, 3])
    taught = teach(model, images, labels, options=OPTIONS | {"epochs": 1}, device="cpu")
    assert (taught.held, taught.unjudged) == (11, ["few"])
    assert (taught.new_after, taught.missed) == (pytest.approx(10 / 11), ["some"])
    assert sorted(taught.correct) == [("many", 10, 10), ("some", 0, 1)]
    assert taught.each_alike == 0.5, "however many images of a class are held out"


def test_what_is_held_out_passes_the_model_once_before_and_once_after_a_lesson(model, folder, monkeypatch):
    teach(model, folder("jan", 0, 1), options=OPTIONS, device="cpu")
    asked, scores = [], Classifier._scores
    monkeypatch.setattr(Classifier, "_scores", lambda self, x: asked.append(len(x)) or scores(self, x))
    taught = teach(model, folder("feb", 2), device="cpu")
    assert asked == [taught.old_held, taught.old_held + taught.held]
    assert sum(held for _, _, held in taught.correct) == asked[1]


def test_progress_is_told_by_stages(model, folder):
    place, seen = folder("jan", 0, 1), []
    (place / "bar 0" / "broken.png").touch()
    teach(model, place, options=OPTIONS | {"epochs": 1}, device="cpu", watch=lambda *told: seen.append(told))
    assert seen[:41] == [("reading images", done, 41) for done in range(1, 42)]
    assert seen[41:] == [("learning", done, len(seen) - 41) for done in range(1, len(seen) - 40)]


def test_only_what_is_new_is_learnt(model, folder):
    teach(model, folder("all", 0, 1), options=OPTIONS, device="cpu")
    nothing = teach(model, folder("all", 0, 1), device="cpu")
    assert (nothing.images, nothing.known, nothing.version) == (0, 40, 1)
    more = teach(model, folder("all", 0, 2, seed=1), device="cpu")
    assert (more.images + more.held, more.known) == (40, 40)
    assert (more.new_classes, more.came_again) == (["bar 2"], ["bar 0"])


def test_back_and_forth(model, folder):
    teach(model, folder("jan", 0, 1), options=OPTIONS, device="cpu")
    teach(model, folder("feb", 2), device="cpu")
    assert model.rollback() == 1
    assert ContinualClassifier.load(model.path, device="cpu").classes_.tolist() == ["bar 0", "bar 1"]
    third = teach(model, folder("mar", 4), device="cpu")
    assert (third.version, model.about()["parent"]) == (3, 1)
    assert ContinualClassifier.load(model.path, device="cpu").classes_.tolist() == ["bar 0", "bar 1", "bar 4"]
    assert model.taught_in() == {"bar 0": 1, "bar 1": 1, "bar 4": 3}
    assert model.rollback(to=2) == 2
    assert model.taught_in() == {"bar 0": 1, "bar 1": 1, "bar 2": 2}
    (model.path / "versions" / "3" / "state.pt").write_bytes(b"PK")
    with pytest.raises(MocaError, match=r"3/state\.pt cannot be read"):
        model.rollback(to=3)
    assert model.current == 2, "one that works is not left for one that does not"
    with pytest.raises(MocaError, match="no version 9; it has 1, 2, 3"):
        model.rollback(to=9)
    model.rollback(to=1)
    with pytest.raises(MocaError, match="is its first"):
        model.rollback()


def test_a_class_that_was_forgotten_comes_again(model, folder):
    teach(model, folder("jan", 0, 1, 2), options=OPTIONS | {"epochs": 1}, device="cpu")
    model.add(model.load(ContinualClassifier, device="cpu").forget("bar 1"))
    teach(model, folder("feb", 1, 3), relearn=True, device="cpu")
    assert model.taught_in() == {"bar 0": 1, "bar 2": 1, "bar 1": 3, "bar 3": 3}
    assert teach(model, folder("feb", 1, 3), device="cpu").forgotten == 0, "what came again is known again"


def test_a_harmful_lesson_is_kept_but_not_used(model, folder):
    given = OPTIONS | {"learner": "finetune", "perturb": "none", "epochs": 20}
    teach(model, folder("jan", 0, 1), options=given, device="cpu")
    harm = teach(model, folder("feb", 2, 3), device="cpu")
    assert harm.old_after < 0.5
    assert (harm.used, harm.version, harm.in_use, model.current) == (False, 2, 1, 1)
    assert ContinualClassifier.load(model.path, device="cpu").classes_.tolist() == ["bar 0", "bar 1"]
    later = teach(model, folder("mar", 4), tolerate=1, device="cpu")
    assert (later.used, later.version, later.in_use) == (True, 3, 3)


@pytest.mark.parametrize(("lost", "count"), [(1, 3), (7, 24), (50, 120), (3, 3)])
def test_a_loss_is_as_many_standard_errors_above_what_is_surely_lost(lost, count):
    """As Wilson's bound is defined: by the standard error at the bound itself."""
    bound = surely_lost(lost / count, count)
    assert (lost / count - bound) ** 2 == pytest.approx(1.645**2 * bound * (1 - bound) / count)
    assert 0 < bound < lost / count


def test_only_what_is_surely_lost_is_not_tolerated():
    assert surely_lost(7 / 24, 24) == pytest.approx(0.167, abs=5e-4)
    assert surely_lost(0.3, 10**9) == pytest.approx(0.3, abs=1e-4)
    assert _tolerable(14 / 24, 7 / 24, 24, 0.2), "little more than chance"
    assert not _tolerable(14 / 24, 5 / 24, 24, 0.2)
    assert not _tolerable(1.0, 0.0, 3, 0.2)
    assert not _tolerable(0.15, 0.02, 100, 0.2), "more than half of what it was, but no 20 points"
    assert _tolerable(0.15, 0.05, 100, 0.2), "as before, little more than chance"
    assert not _tolerable(0.9, 0.0, 100, 0.6)
    for count in range(1, 40):
        assert _tolerable(0.5, 0.5, count, 0), "nothing was lost, up to rounding"
        assert not _tolerable(1.0, 1 - 1 / count, count, 0)
        assert _tolerable(1.0, 0.0, count, 1) and _tolerable(0.1, 0.0, 100 * count, 1)
    assert _tolerable(0.5, 0.9, 10, 0)
    assert _tolerable(None, 0.5, 0, 0)


def test_confused_with_new_classes_is_told_from_forgotten(model):
    """The only new class takes what looked like the old ones; by the scores of these they are as they were."""
    teach(model, *lesson(0, 1), options=OPTIONS | {"learner": "finetune", "epochs": 25}, held_out=0.5, device="cpu")
    harm = teach(model, *lesson(2), device="cpu")
    assert harm.old_after < 0.5 <= harm.old_apart
    classifier = model.load(ContinualClassifier, harm.version, device="cpu")
    old = model.load(ContinualClassifier, 1, device="cpu").kept_
    best = classifier.decision_function(old.images)[:, :2].argmax(1).tolist()
    assert harm.old_apart == np.mean(classifier.classes_[best] == old.labels)
    assert model.about(2)["lesson"]["old_apart"] == harm.old_apart
    more = teach(model, *lesson(0, seed=1), tolerate=1, device="cpu")
    assert more.old_apart == more.old_after, "nothing is new"


def test_a_lesson_that_forgot_too_much_is_not_taught_again(model, folder):
    given = OPTIONS | {"learner": "finetune", "perturb": "none", "epochs": 20}
    teach(model, folder("jan", 0, 1), options=given, device="cpu")
    february = folder("feb", 2, 3)
    shutil.copy(february / "bar 2" / "0-0.png", february / "bar 2" / "copy.png")
    harm = teach(model, february, device="cpu")
    assert harm.first_copy
    steps = []

    def again(**rules):
        steps.clear()
        return teach(
            model,
            february,
            device="cpu",
            watch=lambda stage, *done: stage == "learning" and steps.append(done),
            **rules,
        )

    assert json.dumps(asdict(again())) == json.dumps(asdict(harm) | {"taught_before": True})
    assert (steps, model.current, model.next) == ([], 1, 3)
    about = json.loads((file := model.path / "versions" / "2" / "about.json").read_text())
    assert about["lesson"].pop("epochs") == 20
    file.write_text(json.dumps(about))
    assert again().version == 2 and not steps, "as an older moca wrote it, without epochs"
    assert again(held_out=0.2).version == 3 and steps, "another lesson: other images are held out"
    assert again(options={"epochs": 19}).version == 4 and steps, "another lesson"
    folder("feb", 2, seed=1)
    assert again().version == 5 and steps, "another lesson: more images"
    (model.path / "versions" / "5" / "state.pt").write_bytes(b"half")
    assert again().version == 6 and steps, "what is damaged is taught again"
    used = again(tolerate=1)
    assert (used.version, used.used, used.in_use, steps, model.current) == (6, True, 6, [], 6)
    assert [model.about(number)["lesson"]["used"] for number in (5, 6)] == [False, True]


def test_a_lesson_that_forgot_too_much_is_not_taught_again_once_classes_are_renamed(model, folder):
    given = OPTIONS | {"learner": "finetune", "perturb": "none", "epochs": 20}
    teach(model, folder("jan", 0, 1), options=given, device="cpu")
    february = folder("feb", 2, 3)
    assert not teach(model, february, device="cpu").used
    assert [rename(model, *names) for names in (("bar 0", "rod"), ("bar 1", "bar 0"))] == [3, 4]
    again = teach(model, february, device="cpu")
    assert (again.version, again.taught_before, again.in_use, model.next) == (2, True, 4, 5)
    assert not teach(model, folder("more", 2, seed=2), device="cpu").used
    rename(model, "rod", "stick")
    assert teach(model, february, device="cpu").version == 2
    assert teach(model, folder("more"), device="cpu").version == 5
    used = teach(model, february, tolerate=1, device="cpu")
    assert (used.version, used.used, model.about()["classes"][:2]) == (7, True, ["stick", "bar 0"]), "not its old name"


def test_a_lesson_names_what_was_rejected_before_it(model, folder):
    given = OPTIONS | {"learner": "finetune", "perturb": "none", "epochs": 20}
    teach(model, folder("jan", 0, 1), options=given, device="cpu")
    february = folder("feb", 2, 3)
    assert not (harm := teach(model, february, device="cpu")).used and harm.passed_over == []
    more = teach(model, folder("feb", 2, seed=1), device="cpu")
    assert (more.used, more.passed_over) == (False, []), "its images are among these"
    assert teach(model, folder("late", 6), device="cpu").passed_over == [(3, ["bar 2", "bar 3"])]
    march = teach(model, folder("mar", 4), tolerate=1, device="cpu")
    assert march.passed_over == [(3, ["bar 2", "bar 3"]), (4, ["bar 6"])]
    assert "passed_over" not in model.about()["lesson"], "a version that may be deleted"
    assert teach(model, folder("apr", 5), tolerate=1, device="cpu").passed_over == [], "told once"


def test_old_versions_are_pruned(model, folder):
    teach(model, folder("jan", 0, 1), options=OPTIONS | {"epochs": 1}, device="cpu")
    for label in (2, 3, 4, 5):
        teach(model, folder(f"month {label}", label, count=5), tolerate=1, device="cpu")
    assert ModelFolder(str(model.path)).prune() == {}
    model.rollback(to=3)
    sizes = {about["version"]: model.size(about["version"]) for about in model.versions}
    assert model.prune(keep=1) == {number: sizes[number] for number in (1, 4)}
    assert [about["version"] for about in model.versions] == [2, 3, 5], "in use, the one before it, the newest"
    assert model.created_with()["epochs"] == "1"
    assert model.taught_in() == {"bar 2": 2, "bar 3": 3}, "when bar 0 and bar 1 came is no longer known"
    assert model.rollback() == 2
    with pytest.raises(MocaError, match=r"version 1 .* the one before version 2, was deleted; it has 2, 3, 5: moca"):
        model.rollback()
    for number in (2, 3, 5):
        assert model.load(ContinualClassifier, number, device="cpu").classes_[0] == "bar 0"
    assert teach(model, folder("later", 6, count=5), tolerate=1, device="cpu").version == 6


def test_versions_saved_from_python_say_which_classes_came_with_them(model, folder):
    classifier = ContinualClassifier(**OPTIONS, device="cpu")
    for labels in ((0, 1), (2, 3), (4, 5)):
        classifier.learn(folder(f"bars {labels}", *labels, count=5)).save(model.path)
    assert model.prune(keep=1).keys() == {1}
    assert model.taught_in() == {"bar 2": 2, "bar 3": 2, "bar 4": 3, "bar 5": 3}


def test_versions_saved_from_python_say_how_well_they_know_what_was_held_out(model, folder):
    teach(model, folder("jan", 0, 1), options=OPTIONS | {"epochs": 2}, held_out=0.5, device="cpu")
    classifier = moca.load_model(model.path, device="cpu").learn(bars(2, 10), ["bar 2"] * 10)
    classifier.save(model.path)
    kept, told = classifier.kept_, facts_of(model, classifier).classes
    answers = list(zip(kept.labels, classifier.predict(kept.images).tolist(), strict=True))
    assert [(one.name, one.correct, one.held) for one in told] == [
        (name, answers.count((name, name)), kept.labels.count(name)) for name in ("bar 0", "bar 1", "bar 2")
    ]
    assert [one.held for one in told] == [10, 10, 0]


def test_classes_that_swapped_their_names_came_when_they_came(model, small):
    small(epochs=1).learn(lesson(0, 1, count=4)[0], ["ring"] * 4 + ["cube"] * 4).save(model.path)
    teach(model, bars(2, 4), ["rod"] * 4, tolerate=1, device="cpu")
    for old, new in (("ring", "other"), ("rod", "ring"), ("other", "rod")):
        rename(model, old, new)
    assert model.taught_in() == {"cube": 1, "rod": 1, "ring": 2}


def test_another_model_with_the_same_classes_has_learnt_them_in_its_own_version(model, small):
    images, classes = lesson(0, 1, count=4)
    small(epochs=1).learn(images, classes).save(model.path)
    teach(model, *lesson(2, count=4), tolerate=1, device="cpu")
    small(epochs=1).learn(images, classes).save(model.path, replace=True)
    assert model.taught_in() == {0: 3, 1: 3}
    teach(model, *lesson(2, count=4), tolerate=1, device="cpu")
    assert model.taught_in() == {0: 3, 1: 3, 2: 4}
    assert model.taught_in(2) == {0: 1, 1: 1, 2: 2}


def test_records_of_an_earlier_moca():
    """They had the fields of what had made the version, and texts that named files."""
    about = {"version": 2, "parent": 1, "classes": ["bar", "ring"]}
    assert Lesson.of(about | {"lesson": {"forgot": "cube", "correct": [["bar", 1, 2]]}}).forgot == "cube"
    assert Lesson.of(about | {"lesson": {}}).new_classes == []
    assert Lesson.of(about | {"parent": None, "lesson": {}}).new_classes == ["bar", "ring"]
    old = {"images": 9, "left_out": ["jan/ring/1.png cannot be used"], "first_copy": ["a.png", "b.png"]}
    assert Lesson.of(about | {"lesson": old}) == Lesson(9)


@pytest.mark.parametrize("begun", [False, True], ids=["before a file", "after a file"])
def test_a_deletion_that_is_killed_halfway(model, folder, monkeypatch, begun):
    teach(model, folder("jan", 0, 1), options=OPTIONS | {"epochs": 1}, device="cpu")
    for label in (2, 3):
        teach(model, folder(f"month {label}", label, count=5), tolerate=1, device="cpu")

    def killed(place):
        if begun:
            (place / "state.pt").unlink()
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(shutil, "rmtree", killed)
        model.prune(keep=1)
    assert [about["version"] for about in model.versions] == [2, 3]
    assert model.prune(keep=1) == {}
    assert sorted(place.name for place in (model.path / "versions").iterdir()) == ["2", "3"]


def test_a_full_disk_names_what_makes_room(model, folder, monkeypatch):
    teach(model, folder("jan", 0, 1), options=OPTIONS | {"epochs": 1}, device="cpu")
    for label in (2, 3):
        teach(model, folder(f"month {label}", label, count=5), tolerate=1, device="cpu")

    def full(*given):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(
        MocaError, match=r"No space left on device; it is unchanged; to make room: moca model prune .*/"
    ):
        model.rollback()
    assert model.current == 3


@contextmanager
def no_more_than(size):
    """Inside, no file gets larger, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_lesson_that_fails_changes_nothing(model, folder, tmp_path):
    january, february = folder("jan", 0, 1), folder("feb", 2)
    with no_more_than(8192), pytest.raises(MocaError, match="cannot be written: File too large; none was created"):
        teach(model, january, options=OPTIONS, device="cpu")
    assert not model.path.exists()
    teach(model, january, options=OPTIONS, device="cpu")
    before = sorted(p.relative_to(model.path) for p in model.path.rglob("*") if p.name != "lock")
    with no_more_than(8192), pytest.raises(MocaError, match="cannot be written: File too large; it is unchanged"):
        teach(model, february, device="cpu")
    assert sorted(p.relative_to(model.path) for p in model.path.rglob("*") if p.name != "lock") == before
    assert model.current == 1


def test_a_first_lesson_that_was_killed_while_it_was_written_is_in_nobodys_way(model, small):
    x, y = lesson(0, 1, count=2)
    (model.path / "versions" / "1.part").mkdir(parents=True)
    (model.path / "versions" / "1.part" / "state.pt").write_bytes(b"half")
    (model.path / "lock").touch()
    assert not model.exists()
    assert teach(model, x, y, options=OPTIONS | {"epochs": 1}, device="cpu").version == 1
    assert [place.name for place in (model.path / "versions").iterdir()] == ["1"]


def test_what_is_kept_to_judge_by_has_a_limit(model, folder, monkeypatch):
    monkeypatch.setattr("moca.classifier.held_out._HELD", 3)
    teach(model, folder("jan", 0, 1), options=OPTIONS, held_out=0.5, device="cpu")
    teach(model, folder("feb", 0, 2, seed=1), held_out=0.5, device="cpu")
    kept = model.load(ContinualClassifier, device="cpu").kept_
    assert sorted(kept.labels) == ["bar 0"] * 3 + ["bar 1"] * 3 + ["bar 2"] * 3
    assert len(kept.seen) == 80


def test_nothing_held_out(model, folder):
    lesson = teach(model, folder("jan", 0, 1), options=OPTIONS, held_out=0, device="cpu")
    assert (lesson.held, lesson.new_after) == (0, None)
    assert teach(model, folder("feb", 2), held_out=0, device="cpu").used


def test_a_model_in_a_folder_that_cannot_be_written(model, small):
    small(epochs=1, memory=4).learn(*lesson(0, 1, count=2)).save(model.path)
    (model.path / "lock").mkdir()  # no file can be made there, for root neither
    for attempt in (lambda: teach(model, *lesson(2, count=2), device="cpu"), lambda: forget(model, 0)):
        with pytest.raises(MocaError, match="cannot be changed: Is a directory; check the permissions of its folder"):
            attempt()


def test_one_teacher_at_a_time(model, folder):
    place = folder("jan", 0, 1)
    with model.teaching(), pytest.raises(MocaError, match="taught by another process"):
        teach(ModelFolder(model.path), place, options=OPTIONS, device="cpu")


def test_what_was_chosen_stays(model, folder):
    teach(model, folder("jan", 0, 1), options=OPTIONS, device="cpu")
    february = folder("feb", 2)
    for options, said in (
        ({"learner": "er", "memory": 10}, "already exists, so learner=, memory= cannot be changed; leave them out, or"),
        (OPTIONS | {"memory": 10}, "already exists, so memory= cannot be changed; leave it out, or create another"),
    ):
        with pytest.raises(MocaError, match=said):
            teach(model, february, options=options, device="cpu")
    assert teach(model, february, options=OPTIONS, device="cpu").version == 2
    assert teach(model, folder("mar", 3), options={"memory": "60"}, device="cpu").version == 3
    model.rollback(to=1)
    about = model.about(1)
    del about["options"]
    (model.path / "versions" / "1" / "about.json").write_text(json.dumps(about))
    with pytest.raises(MocaError, match="so memory= cannot be changed"):
        teach(model, february, options={"memory": 10}, device="cpu")
    as_it_is = {"memory": 60, "learner": "er_ace", "augment": True, "optimiser": "sgd", "lr": 0.03}
    assert teach(model, february, options=as_it_is, device="cpu").version == 4, "by default or by an earlier moca"


@pytest.mark.parametrize(
    ("created", "given"), [("gaussian", "gaussian:lambda=.5"), ("gaussian:lambda=0.50", "gaussian")]
)
def test_what_was_chosen_may_be_spelt_otherwise(model, folder, created, given):
    quick = OPTIONS | {"epochs": 1, "learner": "er:passes=separate"}
    teach(model, folder("jan", 0, 1, count=2), options=quick | {"perturb": created}, device="cpu")
    same = {"perturb": given, "encoder": "convnet:features=8,width=4", "learner": "er", "augment": "yes", "seed": "0"}
    assert teach(model, folder("jan"), options=same | {"image_size": 12}, device="cpu").known == 4
    for options, said in (({"perturb": "gaussian:lambda=2"}, "so perturb="), ({"learner": "lwf"}, "so learner=")):
        with pytest.raises(MocaError, match=said):
            teach(model, folder("jan"), options=options, device="cpu")


def test_a_lesson_may_have_its_own_epochs(model, folder):
    def steps(name, label, **options):
        done = []
        taught = teach(
            model,
            folder(name, *label, count=4),
            options=options,
            device="cpu",
            tolerate=1,
            watch=lambda stage, _, total: done.append(total) if stage == "learning" else None,
        )
        return taught.epochs, len(done)

    assert steps("jan", (0, 1), **OPTIONS | {"epochs": 3}) == (3, 3)
    assert steps("feb", (2,), epochs=2) == (2, 2)
    assert steps("mar", (3,)) == (3, 3), "of this lesson alone"
    assert model.load(Classifier, device="cpu").epochs == 3
    with pytest.raises(MocaError, match="epochs = 0: must be 1 or more"):
        steps("apr", (4,), epochs=0)


def test_options_that_are_objects_are_not_recorded(model):
    given = OPTIONS | {"encoder": torch.nn.Flatten(), "epochs": 1}
    teach(model, *lesson(0, 1, count=2), options=given, device="cpu")
    assert model.created_with() == {"perturb": "none", "epochs": "1", "memory": "60"}


def test_damaged_and_strange_folders(model, folder, tmp_path):
    with pytest.raises(MocaError, match=r"there is no model '.*'; moca learn FOLDER --model"):
        model.load(ContinualClassifier)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter.txt").touch()
    steps = []
    with pytest.raises(MocaError, match="is not empty and not a model"):
        teach(ModelFolder(tmp_path / "other"), folder("jan", 0, 1), options=OPTIONS, device="cpu",
              watch=lambda stage, *done: stage == "learning" and steps.append(done))  # fmt: skip
    assert not steps, "before anything is learnt"
    assert [file.name for file in (tmp_path / "other").iterdir()] == ["letter.txt"]
    teach(model, folder("jan", 0, 1), options=OPTIONS, device="cpu")
    (model.path / "versions" / "1" / "state.pt").write_bytes(b"half")
    with pytest.raises(MocaError, match=r"damaged: versions/1/state.pt cannot be read; go back"):
        model.load(ContinualClassifier)
    about = model.path / "versions" / "1" / "about.json"
    about.write_text(json.dumps(json.loads(about.read_text()) | {"format": 99, "moca": "9.0"}))
    with pytest.raises(MocaError, match=r"about.json has format 99, and moca .* reads 1; use moca 9.0 that wrote it"):
        model.load(ContinualClassifier)


@pytest.mark.parametrize("names", [("train", "val", "test"), ("Train", "Test"), ("training_set", "test_set")])
def test_splits_are_no_classes(names, model, folder, tmp_path):
    for seed, name in enumerate(names):
        folder(f"all/{name}", 0, 1, count=4, seed=seed)
    says = rf"are splits \({names[0]}, .*\), not classes; give .* learnt from: .*all/{names[0]}$"
    with pytest.raises(MocaError, match=says):
        teach(model, tmp_path / "all", options=OPTIONS, device="cpu")
    assert teach(model, tmp_path / "all" / names[0], options=OPTIONS, device="cpu").new_classes == ["bar 0", "bar 1"]


def test_images_that_lie_too_deep_are_not_passed_over(model, folder):
    place = folder("jan", 0, 1, count=3)
    within, deep = place / "bar 0" / "2024", place / "bar 0" / "2024" / "may"
    deep.mkdir(parents=True)
    (within / ".thumbnails").mkdir()
    shutil.copy(place / "bar 0" / "0-0.png", within / ".thumbnails")
    (place / "bar 0" / "0-0.png").rename(within / "x.png")
    assert teach(model, place, options=OPTIONS | {"epochs": 1}, device="cpu").images == 6
    (within / "x.png").rename(deep / "x.png")
    with pytest.raises(MocaError, match="2024/may lies too deep: the images of a class are in its folder or in one"):
        teach(model, place, device="cpu")
    for file in [*place.glob("*/*.png")]:
        file.unlink()
    with pytest.raises(MocaError, match="for each class: its images lie deeper; those of a class"):
        teach(model, place, device="cpu")


def test_a_class_may_be_called_train(model, folder, tmp_path):
    folder("all", 0, count=4)
    folder("one", 1, count=4)
    (tmp_path / "one" / "bar 1").rename(tmp_path / "all" / "train")
    assert teach(model, tmp_path / "all", options=OPTIONS, device="cpu").new_classes == ["bar 0", "train"]


@pytest.mark.parametrize(
    ("content", "said", "mends"),
    [
        (
            '{"format": 99, "use": "v2"}',
            r"model.json has format 99, and moca .* reads 1; use the moca that wrote",
            False,
        ),
        (
            '{"format": 1, "current"',
            r"damaged: model.json cannot be read .*; moca model rollback .* --to 2 \(of 1, 2\)",
            True,
        ),
        ('{"format": 1}', r"model.json does not say which version is in use; moca model rollback .* --to 2", True),
        (
            None,
            r"damaged: model.json cannot be read \(No such file or directory\); moca model rollback .* --to 2",
            True,
        ),
        ('{"current": 1}', r"model.json does not have the expected content; moca model rollback .* --to 2", True),
    ],
)
def test_which_version_is_in_use_cannot_be_read(model, small, content, said, mends):
    classifier = small(epochs=1, memory=4).learn(*lesson(0, 1, count=2))
    classifier.save(model.path), classifier.save(model.path)
    told = model.path / "model.json"
    told.write_text(content) if content else told.unlink()
    for attempt in (
        lambda: model.load(ContinualClassifier),
        lambda: teach(model, *lesson(2, count=2), device="cpu"),
        lambda: forget(model, 0, device="cpu"),
        lambda: model.add(classifier),
        model.rollback,
    ):
        with pytest.raises(MocaError, match=said):
            attempt()
    assert (model.next, told.read_text() if told.exists() else None) == (3, content)
    if mends:
        model.rollback(to=2)
        assert model.current == 2
    else:
        with pytest.raises(MocaError, match=said):
            model.rollback(to=2)
        assert told.read_text() == content


def test_of_damaged_versions_none_is_offered(model, small):
    classifier = small(epochs=1, memory=4).learn(*lesson(0, 1, count=2))
    for _ in range(4):
        classifier.save(model.path)
    (model.path / "model.json").write_text("")
    (model.path / "versions" / "4" / "state.pt").write_bytes(b"PK")
    (model.path / "versions" / "3" / "about.json").write_text("{")
    with pytest.raises(MocaError, match=r"model.json cannot be read .*; moca model rollback .* --to 2 \(of 1, 2\)"):
        model.load(ContinualClassifier)
    with pytest.raises(MocaError, match=r"versions/4/state.pt cannot be read; remove .*/versions/4$"):
        model.rollback(to=4)
    for number in (1, 2):
        (model.path / "versions" / str(number) / "state.pt").unlink()
    with pytest.raises(MocaError, match=r"model.json cannot be read .*; restore it$"):
        model.load(ContinualClassifier)


def test_what_is_damaged_says_so_and_one_can_go_back(model, folder):
    teach(model, folder("jan", 0, 1), options=OPTIONS | {"epochs": 1}, device="cpu")
    for _ in range(2):
        model.add(model.load(ContinualClassifier, device="cpu"))
    third = model.path / "versions" / "3"
    about = json.loads((third / "about.json").read_text())
    (third / "about.json").write_text(json.dumps(about | {"classes": ["bar 0", "bar 1", "bar 2"]}))
    with pytest.raises(MocaError, match=r"versions/3/state.pt does not fit what about.json says of it; go back"):
        model.load(ContinualClassifier)
    (third / "about.json").write_text("{}")
    assert model.rollback() == 2
    model.use(3)
    (third / "about.json").write_text(json.dumps(about))
    torch.save({"other": 1}, third / "state.pt")
    with pytest.raises(MocaError, match=r"versions/3/state.pt does not have the expected content; go back"):
        model.load(ContinualClassifier)
    (third / "about.json").unlink()
    with pytest.raises(MocaError, match=r"versions/3/about.json cannot be read \(No such file or directory\); go back"):
        model.load(ContinualClassifier)
    model.use(2)
    with pytest.raises(MocaError, match=r"versions/3/about.json cannot be read \(No such file or directory\); remove"):
        model.versions  # noqa: B018 - one that is not in use
    model.use(3)
    shutil.rmtree(third)
    with pytest.raises(MocaError, match="has no version 3; it has 1, 2"):
        model.load(ContinualClassifier)
    assert model.rollback() == 2
    assert model.load(ContinualClassifier, device="cpu").classes_.tolist() == ["bar 0", "bar 1"]
    shutil.rmtree(third.parent)
    for attempt in (model.about, model.rollback):
        with pytest.raises(MocaError, match="damaged: it has no versions left; restore the folder versions, or"):
            attempt()


def test_classes_are_of_one_kind(model, folder, small, tmp_path):
    x, y = lesson(0, 1, count=5)
    classifier = small(epochs=1).learn(x, y)
    with pytest.raises(MocaError, match="labels are of one kind, numbers or names; 0 is a class, so 'ring' cannot be"):
        classifier.learn(x, ["ring"] * 10)
    with pytest.raises(MocaError, match="labels are of one kind"):
        small(epochs=1).learn(x, ["ring"] * 5 + [1] * 5)
    with pytest.raises(MocaError, match="labels are of one kind"):
        small().learn(np.eye(4), np.array(["ring", "ring", 3, 3], object))
    classifier.save(model.path)
    with pytest.raises(MocaError, match="0 is a class, so 'bar 2' cannot be"):
        teach(model, folder("feb", 2, count=5), device="cpu")
    (tmp_path / "feb" / "bar 2").rename(tmp_path / "feb" / "2")
    assert teach(model, tmp_path / "feb", device="cpu").new_classes == [2]
    assert model.load(ContinualClassifier, device="cpu").classes_.tolist() == [0, 1, 2]


def test_in_python_too(tmp_path, small):
    small().learn(*[[*bars(0, 5), *bars(1, 5)], [0] * 5 + [1] * 5]).save(tmp_path / "m")
    ContinualClassifier.load(tmp_path / "m", device="cpu").learn([*bars(2, 5)], [2] * 5).save(tmp_path / "m")
    assert [v["classes"] for v in ModelFolder(tmp_path / "m").versions] == [[0, 1], [0, 1, 2]]


def test_what_was_learnt_in_python_is_known_to_lessons(model, folder, small):
    """Nothing is held out of which the memory has a copy."""
    january = folder("jan", 0, 1)
    small(epochs=1).learn(january).save(model.path)
    again = teach(model, january, device="cpu")
    assert (again.images, again.held, again.known, model.current) == (0, 0, 40, 1)
    loaded = moca.load_model(model.path, device="cpu")
    loaded.learn(january).learn([*bars(0, 5)], ["bar 1"] * 5).save(model.path)
    assert len(loaded.kept_.seen) == len({row.numpy().tobytes() for row in loaded.kept_.seen}) == 40
    corrected = teach(model, january, tolerate=1, held_out=0, device="cpu")
    assert (corrected.known, corrected.otherwise) == (35, {"bar 1": 5}), "the latest class counts"
    later = teach(model, folder("jan", 2), tolerate=1, device="cpu")
    held = {row.tobytes() for row in digests_of(model.load(ContinualClassifier, device="cpu").kept_.images)}
    memory = model.load(ContinualClassifier, device="cpu").learning_.memory.all()["image"]
    assert (later.known, later.held, len(held)) == (40, 2, 2)
    assert not held & {row.tobytes() for row in digests_of(memory)}


def test_what_lessons_are_judged_by_survives_a_lesson_in_python(model, folder):
    jan = folder("jan", 0, 1, 2)
    teach(model, jan, options=OPTIONS | {"epochs": 1}, device="cpu")
    loaded = moca.load_model(model.path, device="cpu")
    loaded.forget("bar 2").learn([*bars(3, 5)], ["bar 3"] * 5).save(model.path)
    later = teach(model, jan, tolerate=1, relearn=True, device="cpu")
    assert (later.known, later.new_classes) == (40, ["bar 2"]), "what was taught is known, what was forgotten is not"
    assert later.old_held == 4
    assert later.old_before is not None


@pytest.fixture
def run(tmp_path):
    options = {"model": "convnet:width=2", "epochs": 1, "tasks": 2, "memory": 20, "device": "cpu"}
    return ModelFolder(moca.run(**options, out=tmp_path / "run").folder)


def test_a_run_is_no_model_yet(run):
    with pytest.raises(MocaError, match="it is a finished run, and becomes one with: moca learn FOLDER --model"):
        run.rollback()


@pytest.mark.parametrize("failure", [KeyboardInterrupt, MocaError("failed")])
def test_a_run_is_a_model_once_a_lesson_has_ended(run, failure):
    images, before = bars(2, 8)[:, :8, :8], {file.name: file.stat().st_mtime_ns for file in run.path.iterdir()}

    def fails(stage, done, total):
        if stage == "learning" and done == total:
            raise failure

    with pytest.raises((KeyboardInterrupt, MocaError)):
        teach(run, images, ["bar"] * 8, device="cpu", watch=fails)
    assert {file.name: file.stat().st_mtime_ns for file in run.path.iterdir()} == before
    with pytest.raises(MocaError, match="already exists, so learner= cannot be changed; leave it out, or create"):
        teach(run, images, ["bar"] * 8, options={"learner": "der"}, device="cpu")
    weights = run.load(ContinualClassifier, device="cpu").learning_.model.state_dict()
    taught = teach(run, images, ["bar"] * 8, options={"memory": 20}, tolerate=1, device="cpu")
    assert (taught.version, taught.in_use, run.current, run.about()["parent"]) == (2, 2, 2, 1)
    assert run.taught_in() == {**dict.fromkeys(run.about(1)["classes"], 1), "bar": 2}
    first = run.load(ContinualClassifier, 1, device="cpu").learning_.model.state_dict()
    assert all(torch.equal(first[name], weight) for name, weight in weights.items())


def test_that_a_run_records_no_images_is_told_where_it_matters(run, tmp_path):
    def told(label, images):
        lines = []
        teach(run, images[:, :8, :8], [label] * len(images), tolerate=1, device="cpu", say=lines.append)
        return lines

    assert told("bar", bars(2, 8)) == []
    (line,) = told("3", bars(3, 8))
    assert line.startswith("the run did not record which images of 3 it was trained on; those among these are learnt")
    assert told("3", bars(4, 8)) == [], "from now on they are recorded"
    for name in ("3", "4"):
        (tmp_path / "more" / name).mkdir(parents=True)
        Image.fromarray(bars(5, 1)[0, :8, :8]).save(tmp_path / "more" / name / "a.png")
    lines = []
    examine(run.load(ContinualClassifier, device="cpu"), tmp_path / "more", say=lines.append)
    assert lines == ["the run did not record which images of 4 it was trained on; those among these test little"]


def test_an_image_that_cannot_be_read_is_left_out_and_named(model, folder):
    place = folder("jan", 0, 1)
    (place / "bar 0" / "0-3.png").write_bytes(b"no image")
    (place / "bar 0" / "0-4.png").unlink()
    os.mkfifo(place / "bar 0" / "0-4.png")
    lesson = teach(model, place, options=OPTIONS, device="cpu")
    assert lesson.images + lesson.held == 38
    unknown, pipe = lesson.left_out
    assert "bar 0/0-3.png' cannot be used: not an image of a known format" in unknown
    assert "bar 0/0-4.png' cannot be used: a pipe, socket or device, not a file" in pipe
    with pytest.warns(UserWarning, match="2 of 40 images left out"):
        ContinualClassifier(**OPTIONS | {"epochs": 1}, device="cpu").learn(place)


def test_what_is_not_read_is_told_in_python_too(folder, small):
    place = folder("jan", 0, 1, count=4)
    assert not_read_told(place) == ""
    (place / "bar 2").mkdir()
    with pytest.warns(MocaWarning, match="^not read: the empty folder bar 2$"):
        assert small(epochs=1).learn(place).classes_.tolist() == ["bar 0", "bar 1"]


def test_a_new_class_that_may_be_a_known_one_misspelt_is_named(model, folder, tmp_path):
    teach(model, folder("jan", 0, 1, count=4), options=OPTIONS | {"epochs": 1}, device="cpu")
    (folder("feb", 0, count=4, seed=1) / "bar 0").rename(tmp_path / "feb" / "abr_0")
    notes = []
    teach(model, tmp_path / "feb", tolerate=1, device="cpu", say=notes.append)
    told = "'abr_0' is a new class, spelt almost like 'bar 0'; if they are one, teach its images again as 'bar 0'."
    assert notes == [told]


@pytest.mark.parametrize(
    ("new", "known", "alike"),
    [
        ("bicylce", "bicycle", True),
        ("clok", "clock", True),
        ("Traffic-Light", "traffic_light", True),
        ("lamps", "lamp", True),
        ("type_b", "type_a", False),
        ("bear", "pear", False),
        ("cat", "cart", False),
        ("sign_12", "sign_1", False),
        ("sign_12", "sign_21", False),
        ("A+", "A-", False),
    ],
)
def test_which_names_are_spelt_alike(new, known, alike):
    assert bool(alike_told([new], ["other", known])) == alike


def test_an_image_of_two_classes_counts_for_the_first_and_both_are_named(model, folder):
    place = folder("jan", 0, 1)
    shutil.copy(place / "bar 0/0-3.png", place / "bar 1/x.png")
    shutil.copy(place / "bar 0/0-4.png", place / "bar 0/same.png")  # twice, but of one class
    quick = OPTIONS | {"epochs": 1}
    lesson = teach(model, place, options=quick, device="cpu")
    both = str(place / "bar 0/0-3.png"), str(place / "bar 1/x.png")
    assert (lesson.twice, lesson.first_twice) == (1, both)
    assert (lesson.images + lesson.held, lesson.known, lesson.copies) == (40, 0, 1)
    assert copies_told(lesson) == (
        f"1 image is a copy of another and does not count (the first: {place / 'bar 0/same.png'} is "
        f"{place / 'bar 0/0-4.png'})."
    )
    told = f"1 image is in two classes and counts in one: {both[0]}, not {both[1]}."
    assert twice_told(lesson) == told
    again = teach(model, place, device="cpu")
    assert (again.images, again.known, again.otherwise) == (0, 42, {}), "it was learnt as the first, which stays"
    assert (twice_told(again), copies_told(again)) == (told, "")


def test_an_image_of_two_classes_counts_for_the_one_it_was_learnt_as(model, folder):
    teach(model, folder("jan", 1, 2), options=OPTIONS | {"epochs": 1}, device="cpu")
    place = folder("feb", 3, count=5)
    for name in ("bar 0", "bar 1"):
        (place / name).mkdir()
        shutil.copy(folder("jan", 1) / "bar 1/0-3.png", place / name / "x.png")
    lesson = teach(model, place, tolerate=1, device="cpu")
    assert (lesson.images + lesson.held, lesson.known, lesson.new_classes) == (5, 2, ["bar 3"])
    assert (lesson.twice, lesson.first_twice) == (1, (str(place / "bar 1/x.png"), str(place / "bar 0/x.png")))
    assert teach(model, place, device="cpu").first_twice == lesson.first_twice


@pytest.mark.parametrize(
    "options",
    [
        {"learner": "er_ace"},
        {"learner": "derpp"},
        {"learner": "icarl"},
        {"learner": "xder"},
        {"learner": "er:adjust=auto"},
        {"learner": "lwf"},
        {"frozen": "convnet:width=2", "encoder": "identity"},
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:the features of the frozen")
def test_a_label_that_was_wrong_is_corrected(model, options):
    """Of images that come as another class nothing is kept as what they were; all else is."""
    given = OPTIONS | {"epochs": 1, "memory": 100} | options
    x, y = lesson(0, 1)
    teach(model, x, y, options=given, held_out=0.5, device="cpu")

    def kept():
        """Each image, or what is seen of it, with its class, by where it is kept."""
        now = model.load(ContinualClassifier, device="cpu")
        memory = {(image.tobytes(), label) for label, images in now.memory_contents().items() for image in images}
        judged = {(row.numpy().tobytes(), label) for row, label in zip(now.kept_.images, now.kept_.labels, strict=True)}
        fit = now.learning_.held
        seen = {(row.numpy().tobytes(), name) for row, name in zip(now.kept_.seen, now.kept_.seen_of, strict=True)}
        fitted = (
            set() if fit is None else {(r.numpy().tobytes(), int(c)) for r, c in zip(fit.images, fit.y, strict=True)}
        )
        return memory, judged, seen, fitted

    before, wrong = kept(), np.arange(6)
    corrected = teach(model, x[wrong], [1] * 6, tolerate=1, held_out=0.5, device="cpu")
    assert (corrected.otherwise, corrected.known, corrected.images + corrected.held) == ({"0": 6}, 0, 6)
    assert corrected.came_again == [1]
    after, counts = kept(), []
    for place, (was, now) in enumerate(zip(before, after, strict=True)):
        gone = {row for row, label in was if label == 0} - {row for row, label in now if label == 0}
        if place < 3:
            assert {pair for pair in was if pair[0] not in gone} <= now, "all else stays"
        assert not gone & {row for row, label in now if label == 0}
        counts.append(len(gone))
    assert counts[2] == 6 and (counts[0] + counts[1] + counts[3] == 6 or given.get("learner") == "lwf")
    assert len(after[2]) == 40, "each image was taught once"
    assert teach(model, x[wrong], [1] * 6, device="cpu").known == 6


@pytest.mark.parametrize("learner", ["er_ace", "lwf"])
def test_a_class_whose_images_were_all_corrected_is_named(model, learner):
    x, y = lesson(0, 1, count=6)
    teach(model, x, y, options=OPTIONS | {"epochs": 1, "learner": learner}, device="cpu")
    assert teach(model, x[:5], [1] * 5, tolerate=1, device="cpu").emptied == []
    assert teach(model, x[5:6], [1], tolerate=1, device="cpu").emptied == [0]
    assert model.about()["classes"] == [0, 1]
    more = teach(model, bars(0, 6, seed=1), [0] * 6, tolerate=1, device="cpu")
    assert more.emptied == []


def test_a_class_that_gets_other_images_in_the_same_lesson_is_not_empty(model):
    x, y = lesson(0, 1, count=6)
    teach(model, x, y, options=OPTIONS | {"epochs": 1}, device="cpu")
    both = np.concatenate([x[:6], bars(0, 6, seed=1)])
    assert teach(model, both, [1] * 6 + [0] * 6, tolerate=1, device="cpu").emptied == []


@pytest.mark.filterwarnings("ignore:the features of the frozen")
def test_lessons_of_which_nothing_is_held_out_and_a_frozen_encoder(model):
    """Images to judge by are kept as features, and none of them may come before or after some."""
    options, held = OPTIONS | {"epochs": 1, "frozen": "convnet:width=2", "encoder": "identity"}, []
    for number, share in enumerate((0, 0.5, 0)):
        x, y = lesson(2 * number, 2 * number + 1, count=4)
        teach(model, x, y, options=None if number else options, held_out=share, tolerate=1, device="cpu")
        teach(model, x[:1], [1], held_out=0, tolerate=1, device="cpu")
        kept = model.load(ContinualClassifier, device="cpu").kept_
        held.append(None if kept.images is None else len(kept.images))
    assert held == [None, 4, 4]


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6], ids=str)
def test_only_the_vectors_whose_labels_were_wrong_go_whatever_their_size(small, size):
    x = size * np.random.default_rng(0).normal(size=(40, 5)).astype(np.float32)
    taught = small(encoder="identity", epochs=1).learn(x, [0, 1] * 20)
    wrong = torch.from_numpy(x[:3])[:, :, None, None]
    taught.unlearn(wrong, digests_of(wrong))
    assert {label: len(vectors) for label, vectors in taught.memory_contents().items()} == {0: 18, 1: 19}


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3], ids=str)
def test_features_that_were_rounded_otherwise_are_found(model, size):
    """As those of a GPU are on a CPU; the least of an image with large ones differ by more than their own size."""

    class Sums(torch.nn.Module):
        off = 0.0

        def forward(self, x):
            lengths = size * x.flatten(1)[:, :20]
            return lengths + self.off * lengths.norm(dim=1, keepdim=True)

    x, y = lesson(0, 1)
    frozen = Sums()
    options = OPTIONS | {"epochs": 1, "encoder": "identity", "frozen": frozen}
    teach(model, x, y, options=options, held_out=0, device="cpu")
    frozen.off = 1e-6
    taught = model.load(ContinualClassifier, device="cpu", frozen=frozen)
    wrong = torch.from_numpy(x[:3])[:, None]
    taught.unlearn(wrong, digests_of(wrong))
    assert {label: len(images) for label, images in taught.memory_contents().items()} == {0: 17, 1: 20}


@pytest.mark.parametrize("learner", ["er", "derpp"])
def test_a_corrected_label_does_not_open_a_full_memory(small, learner):
    """What comes later is as small a part of the memory as without the correction."""
    x, y = lesson(0, 1, count=50)
    model = small(learner=learner, perturb="none", memory=20, epochs=1).learn(x, y)
    before = model.memory_contents()
    wrong = torch.from_numpy(before[0][0]).permute(2, 0, 1)[None]
    model.unlearn(wrong, digests_of(wrong))
    kept, left = ({image.tobytes() for images in held.values() for image in images}
                  for held in (before, model.memory_contents()))  # fmt: skip
    assert left == kept - {before[0][0].tobytes()}
    shares = model.learn(*lesson(2, count=100)).memory_contents()
    assert sorted(map(len, shares.values())) == [6, 7, 7]


def test_names_that_are_not_utf_8_are_spelt_out(model, folder):
    place = folder("jan", 0, 1)
    try:
        (place / "bar 1").rename(named := place / os.fsdecode(b"caf\xe9"))
    except OSError:
        pytest.skip("this file system has no such names")
    (named / os.fsdecode(b"br\xfbl\xe9.png")).write_bytes(b"no image")
    lesson = teach(model, place, options=OPTIONS | {"epochs": 1}, device="cpu")
    assert lesson.new_classes == ["bar 0", r"caf\udce9"]
    assert r"caf\udce9/br\udcfbl\udce9.png' cannot be used" in lesson.left_out[0]
    assert model.about()["lesson"]["new_classes"] == lesson.new_classes


def test_a_folder_of_which_nothing_can_be_read_is_refused(model, folder):
    place = folder("jan", 0, 1, count=3)
    for file in place.rglob("*.png"):
        file.write_bytes(b"no image")
    with pytest.raises(MocaError, match=r"none of the 6 images can be used; the first: .*0-0.png' cannot"):
        teach(model, place, options=OPTIONS, device="cpu")
    assert not model.path.exists()


def test_images_that_lessons_are_evaluated_on_are_never_learnt(model, folder):
    january = folder("jan", 0, 1)
    teach(model, january, options=OPTIONS, device="cpu")
    classifier = model.load(ContinualClassifier, device="cpu")
    with pytest.warns(UserWarning, match="4 of 40 images are left out: lessons are evaluated on them"):
        classifier.learn(january)
    held = {row.tobytes() for row in digests_of(classifier.kept_.images)}
    assert len(held) == 4
    assert not held & {row.tobytes() for row in digests_of(classifier.learning_.memory.all()["image"])}


def test_a_model_that_has_learnt_something_else_meanwhile_is_not_overwritten(model, folder, small):
    teach(model, folder("jan", 0, 1), options=OPTIONS, device="cpu")
    mine = moca.load_model(model.path, device="cpu").learn(bars(3, 9), ["bar 3"] * 9)
    teach(model, folder("feb", 2), tolerate=1, device="cpu")
    with pytest.raises(MocaError, match="version 2 is in use, and this classifier continues version 1; load it again"):
        mine.save(model.path)
    assert model.current == 2
    mine.save(model.path, replace=True)
    assert (model.current, mine.continues_[1]) == (3, 3)
    assert (model.created_with(), model.about(2)["options"]["epochs"]) == ({}, "8"), "those of what it replaces"
    mine.save(model.path)
    with pytest.raises(MocaError, match="holds another model; save to another folder"):
        small().learn(*lesson(0, 1)).save(model.path)
    assert model.current == 4
    with pytest.raises(MocaError, match="holds another model"):
        mine.fit(*lesson(0, 1)).save(model.path)


def test_a_rewrite_that_fails_leaves_the_version_in_its_place(model, folder, monkeypatch):
    teach(model, folder("jan", 0, 1, 2), options=OPTIONS, device="cpu")
    classifier, replace = model.load(Classifier, device="cpu"), Path.replace

    def full(path, target):
        if path.name == "1.part":
            raise OSError(28, "No space left on device")
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(MocaError, match="No space left on device"):
        model.rewrite(1, classifier, Lesson())
    assert model.about(1)["classes"] == ["bar 0", "bar 1", "bar 2"]


def test_an_earlier_version_can_be_loaded(model, folder):
    teach(model, folder("jan", 0, 1), options=OPTIONS, device="cpu")
    teach(model, folder("feb", 2), tolerate=1, device="cpu")
    assert moca.load_model(model.path, version=1, device="cpu").classes_.tolist() == ["bar 0", "bar 1"]
    with pytest.raises(MocaError, match="has no version 7; it has 1, 2"):
        moca.load_model(model.path, version=7)


def test_a_name_in_two_spellings_is_one_class(model, folder, tmp_path):
    shutil.move(folder("jan", 0, 1) / "bar 0", tmp_path / "jan" / "W\u00fcrfel")
    teach(model, tmp_path / "jan", options=OPTIONS, device="cpu")
    shutil.move(folder("feb", 0, seed=1) / "bar 0", tmp_path / "feb" / "Wu\u0308rfel ")
    assert teach(model, tmp_path / "feb", tolerate=1, device="cpu").came_again == ["W\u00fcrfel"]
    taught = moca.load_model(model.path, device="cpu").learn(bars(0, 9, seed=2), ["Wu\u0308rfel"] * 9)
    assert taught.classes_.tolist() == ["W\u00fcrfel", "bar 1"]


def test_empty_slots_of_the_memory_take_no_room(model, folder):
    teach(model, folder("jan", 0, 1), options=OPTIONS | {"memory": 100_000, "epochs": 1}, device="cpu")
    assert (model.path / "versions" / "1" / "state.pt").stat().st_size < 1_000_000
    memory = model.load(ContinualClassifier, device="cpu").learning_.memory
    assert (memory.size, len(memory), len(memory.fields["image"])) == (100_000, 36, 100_001)
