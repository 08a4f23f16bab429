"""A test of a model is what its predictions are, counted one by one."""

from collections import Counter

import pytest

from moca import ContinualClassifier, MocaError
from moca.classifier import ModelFolder
from moca.classifier.lesson import teach
from moca.classifier.tested import examine
from tests.classifier.conftest import bars, lesson

QUICK = {"encoder": "convnet:width=4,features=8", "epochs": 2, "memory": 60}


def test_every_image_counts_once_for_its_class(folder, tmp_path):
    model = ModelFolder(tmp_path / "model")
    teach(model, folder("january", 0, 1, 2), options=QUICK, device="cpu")
    classifier = model.load(ContinualClassifier, device="cpu")
    place = folder("test", 0, 1, 2, 5, count=9, seed=1)
    (place / "bar 0" / "text.png").write_text("no image")
    (place / "bar 2" / "taught.png").write_bytes((tmp_path / "january" / "bar 2" / "0-0.png").read_bytes())
    (place / "bar 2" / "again.png").write_bytes((place / "bar 2" / "1-0.png").read_bytes())  # not learnt
    told = [
        (file.parent.name, classifier.predict(file).item()) for file in place.rglob("*.png") if "text" not in file.name
    ]
    known = [(name, answer) for name, answer in told if name != "bar 5"]
    seen = []
    result = examine(classifier, place, watch=lambda *told: seen.append(told))
    assert (result.images, result.correct) == (29, sum(name == answer for name, answer in known))
    assert result.classes == [
        (name, sum(pair == (name, name) for pair in known), 9 + 2 * (name == "bar 2"))
        for name in ("bar 0", "bar 1", "bar 2")
    ]
    wrong = Counter(pair for pair in known if pair[0] != pair[1])
    assert {(name, answer): count for name, answer, count in result.confused} == wrong
    assert [count for *_, count in result.confused] == sorted(wrong.values(), reverse=True)
    assert (result.unknown, result.learnt, len(result.left_out)) == ({"bar 5": 9}, 1, 1)
    strange = "9 of 38 images are of 1 class that the model does not know (bar 5) and are not counted"
    assert result.unknown_told == strange
    assert [stage for stage, done, total in seen if done == total] == ["reading images", "predicting"]
    with pytest.raises(
        MocaError, match=r"\(bar 4\) and are not counted; give images of its classes: bar 0, bar 1, bar 2"
    ):
        examine(classifier, folder("other", 4, count=2))


def test_a_class_without_images_left_was_not_learnt_in_a_run(folder, tmp_path):
    model, images = ModelFolder(tmp_path / "model"), bars(0, 3)
    teach(model, *lesson(0, 1, count=3), options=QUICK, device="cpu")
    assert teach(model, images, [1] * 3, tolerate=1, device="cpu").emptied == [0]
    place, told = folder("test", 0, 1, count=2), []
    for label in "01":
        (place / f"bar {label}").rename(place / label)
    examine(model.load(ContinualClassifier, device="cpu"), place, say=told.append)
    assert told == []
