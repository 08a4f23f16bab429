"""A class that is forgotten: nothing of it is left, and nothing else has changed."""

import numpy as np
import pytest
import torch

from moca import MocaError
from moca.classifier import ContinualClassifier, ModelFolder
from moca.classifier.lesson import forget, teach
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


@pytest.mark.parametrize("learner", ["er", "derpp", "icarl", "lwf"])
def test_it_goes_on_learning(small, learner):
    model = small(learner=learner, perturb="none").learn(*lesson(0, 1, 2)).forget(1).learn(*lesson(3, 4))
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
    assert model.about()["lesson"] == {"forgot": "bar 1"}
    assert "bar 1" in model.about(1)["classes"]
    assert forget(model, "bar 2", all_versions=True, device="cpu") == 4
    secret = {image.tobytes() for image in bars(2, 20)}
    for about in model.versions:
        assert "bar 2" not in about["classes"]
        classifier = model.load(ContinualClassifier, about["version"], device="cpu")
        kept = model.kept(about["version"])
        images = [*kept["images"], *classifier.learning_.memory.fields["image"]]
        assert not secret & {image[0].numpy().tobytes() for image in images}
        assert "bar 2" not in kept["labels"] + kept["seen_of"]
    again = teach(model, folder("jan", 2), held_out=0.2, tolerate=1, device="cpu")
    assert again.new_classes == ["bar 1", "bar 2"], "January's folder has both, and what was forgotten is new"
