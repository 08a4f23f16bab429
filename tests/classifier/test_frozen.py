"""Encoders that bring weights: going on to learn, or frozen, when images pass them once."""

import json
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import nn
from torch.backends import cudnn

import moca
from moca import MocaError
from moca.classifier import ContinualClassifier, ModelFolder
from moca.classifier.lesson import teach
from moca.errors import MocaWarning
from moca.models.frozen import Frozen
from tests.classifier.conftest import SIDE, bars, lesson

OPTIONS = {"encoder": "identity", "epochs": 15, "memory": 60, "device": "cpu"}


class Own(nn.Module):
    """Sums of rows and columns, times a weight; counts the images that pass."""

    passed = 0

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.full((2 * SIDE,), 0.5))

    def forward(self, x):
        type(self).passed += len(x)
        return torch.cat([x.sum((1, 2)), x.sum((1, 3))], 1) * self.weight


@pytest.fixture
def trained(tmp_path, small):
    """A model that has learnt four bars, kept."""
    model = small().learn(*lesson(0, 1, 2, 3))
    model.save(tmp_path / "trained")
    return model, f"pretrained:weights={tmp_path / 'trained'}"


def weights_of(classifier):
    return {name: value.clone() for name, value in classifier.learning_.model.encoder.state_dict().items()}


def test_one_of_ours_goes_on_from_its_weights_and_then_needs_the_file_no_more(trained, small, tmp_path):
    begun, spec = trained
    model = small(encoder=spec, epochs=1)
    model._start(torch.from_numpy(lesson(4, 5)[0])[:, None], [4, 5] * 20)
    for name, value in weights_of(model).items():
        torch.testing.assert_close(value, weights_of(begun)[name], rtol=0, atol=0)
    model.learn(*lesson(4, 5)).save(tmp_path / "own")
    assert any((value != weights_of(begun)[name]).any() for name, value in weights_of(model).items())
    (tmp_path / "trained").rename(tmp_path / "elsewhere")
    again = moca.load_model(tmp_path / "own", device="cpu")
    assert str(again.settings_.model) == "convnet:width=4,features=8"
    np.testing.assert_array_equal(again.decision_function(bars(4, 3)), model.decision_function(bars(4, 3)))


def test_frozen_weights_stay_and_each_image_passes_once():
    Own.passed, seen = 0, []
    own = Own()
    model = ContinualClassifier(frozen=own, **OPTIONS)
    model.learn(*lesson(0, 1, 2), watch=lambda *told: seen.append(told))
    assert Own.passed == 60 + 2  # and two black images, to see how long its features are
    assert [told for told in seen if told[0] != "learning"][-1] == ("encoding images", 60, 60)
    model.learn(*lesson(3, 4))
    assert Own.passed == 100 + 2
    assert model.score(*lesson(0, 1, 2, 3, 4, seed=7)) > 0.9
    assert (model.frozen_.encoder.weight == 0.5).all()
    assert model.shape_ == (1, SIDE, SIDE)
    assert {len(image.ravel()) for images in model.memory_contents().values() for image in images} == {2 * SIDE}


def test_features_are_made_in_float32(monkeypatch):
    """Torch could round the factors of products, and on a GPU choose among algorithms by timing them."""
    found = []

    class Asking(Own):
        def forward(self, x):
            found.append((cudnn.allow_tf32, torch.get_float32_matmul_precision(), cudnn.deterministic, cudnn.benchmark))
            return super().forward(x)

    monkeypatch.setattr(cudnn, "benchmark", True)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        model = ContinualClassifier(frozen=Asking(), **OPTIONS | {"epochs": 1}).learn(*lesson(0, 1))
        found.clear()
        model.predict(bars(0, 2))
        assert torch.get_float32_matmul_precision() == "medium", "as it was"
    finally:
        torch.set_float32_matmul_precision(before)
    assert found == [(False, "highest", True, False)]
    assert (cudnn.allow_tf32, cudnn.benchmark) == (True, True), "as they were"


def test_features_are_those_of_the_encoder_on_plain_images():
    own = Own()
    model = ContinualClassifier(frozen=own, **OPTIONS).learn(*lesson(0, 1))
    x = bars(2, 3)
    mean, std = model.frozen_.protocol.mean[0], model.frozen_.protocol.std[0]
    seen = (torch.from_numpy(x).float() / 255 - mean) / std
    expected = torch.cat([seen.sum(1), seen.sum(2)], 1) * 0.5
    torch.testing.assert_close(model.prepared(x), expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(model.decision_function(model.prepared(x)), model.decision_function(x), atol=1e-5)


def test_a_model_on_a_frozen_encoder_is_whole_in_its_folder(small, folder, tmp_path):
    small().learn(folder("before", 0, 1, 2, 3, seed=3)).save(tmp_path / "trained")
    spec = f"pretrained:weights={tmp_path / 'trained'}"
    kept = ModelFolder(tmp_path / "model")
    given = {name: value for name, value in OPTIONS.items() if name != "device"} | {"frozen": spec}
    teach(kept, folder("jan", 0, 1), options=given, device="cpu")
    (tmp_path / "trained").rename(tmp_path / "elsewhere")
    second = teach(kept, folder("feb", 4, 5), device="cpu")
    assert second.old_after >= 0.75
    assert len(list(kept.path.glob("frozen-*.pt"))) == 1
    model = moca.load_model(kept.path, device="cpu")
    assert model.kept_.images.shape == (8, 8), "features of the images to judge by"
    assert (str(model.settings_.frozen), str(model.settings_.model)) == ("convnet:width=4,features=8", "identity")
    assert moca.load_model(kept.path, device="cpu").forget("bar 4").classes_.tolist() == ["bar 0", "bar 1", "bar 5"]


def frozen_model(width):
    return ContinualClassifier(frozen=f"convnet:width={width}", **OPTIONS | {"epochs": 1}).learn(*lesson(0, 1))


@pytest.mark.filterwarnings("ignore:the features of the frozen")
def test_a_first_save_that_is_killed_before_its_version_is_there_is_in_nobodys_way(tmp_path, monkeypatch):
    replace = Path.replace

    def killed(path, target):
        if path.name == "1.part":
            raise KeyboardInterrupt
        return replace(path, target)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Path, "replace", killed)
        frozen_model(2).save(tmp_path / "model")
    assert len(list((tmp_path / "model").glob("frozen-*.pt"))) == 1
    other = frozen_model(3)
    other.save(tmp_path / "model")
    other.save(tmp_path / "model")
    assert [file.name for file in (tmp_path / "model").glob("frozen-*.pt")] == [f"frozen-{other.frozen_.digest}.pt"]


@pytest.mark.filterwarnings("ignore:the features of the frozen")
def test_frozen_weights_go_with_the_last_version_that_uses_them(tmp_path):
    model = ModelFolder(tmp_path / "model")
    first, second = frozen_model(2), frozen_model(3)
    first.save(model.path)
    second.save(model.path, replace=True)
    for _ in range(2):
        second.save(model.path)
    assert len(list(model.path.glob("frozen-*.pt"))) == 2
    moca.load_model(model.path, version=1, device="cpu")
    damaged = model.path / "versions" / "2" / "about.json"
    content = damaged.read_text()
    damaged.write_text("{")
    assert model.prune(keep=3).keys() == {1}
    assert len(list(model.path.glob("frozen-*.pt"))) == 2, "the version that cannot be read may use them"
    damaged.write_text(content)
    assert model.prune(keep=1).keys() == {2}
    assert [file.name for file in model.path.glob("frozen-*.pt")] == [f"frozen-{second.frozen_.digest}.pt"]
    moca.load_model(model.path, device="cpu")


def test_the_normalisation_of_pretrained_weights_is_kept(trained):
    begun, spec = trained
    model = ContinualClassifier(frozen=spec, **OPTIONS).learn(np.concatenate([bars(0, 5) // 2, bars(1, 5)]), [0, 1] * 5)
    assert model.frozen_.protocol.mean == begun.protocol_.mean
    x = bars(2, 4)
    expected = begun.learning_.model.eval().encode(
        (torch.from_numpy(x).float()[:, None] / 255 - begun.protocol_.mean[0]) / begun.protocol_.std[0]
    )
    torch.testing.assert_close(model.prepared(x), expected.detach(), rtol=1e-4, atol=1e-4)


def test_a_run_on_a_frozen_encoder_is_a_model(tmp_path):
    first = moca.run(model="convnet:width=4", epochs=2, tasks=2, memory=50, device="cpu", out=tmp_path / "first")
    spec = f"pretrained:weights={first.folder}"
    run = moca.run(frozen=spec, model="identity", epochs=4, tasks=2, memory=50, device="cpu", out=tmp_path / "run")
    assert run.final_accuracy > 0.7
    (tmp_path / "first").rename(tmp_path / "elsewhere")
    model = moca.load_model(run.folder, device="cpu")
    digits = moca.load("digits")
    labels = [digits.classes[c] for c in digits.test.labels.tolist()]
    assert model.score(digits.test.images, labels) == pytest.approx(run.final_accuracy, abs=0.02)
    with pytest.raises(MocaError, match="learnt on a frozen encoder"):
        ContinualClassifier(frozen=f"pretrained:weights={run.folder}", **OPTIONS).learn(*lesson(0, 1))


@pytest.mark.parametrize("kind", ["safetensors", "pt"])
def test_a_file_of_weights_with_its_encoder(tmp_path, trained, kind):
    begun, _ = trained
    file = tmp_path / f"weights.{kind}"
    save = safetensors.torch.save_file if kind == "safetensors" else torch.save
    save({name: value.contiguous() for name, value in begun.learning_.model.encoder.state_dict().items()}, file)
    spec = f"pretrained:weights={file},base=convnet:width=4/features=8"
    model = ContinualClassifier(frozen=spec, **OPTIONS).learn(*lesson(0, 1))
    for name, value in weights_of(begun).items():
        torch.testing.assert_close(model.frozen_.state()[name], value, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"encoder": "pretrained"}, "pretrained needs weights"),
        ({"encoder": "pretrained:weights=nowhere"}, "nowhere' are not there; give a finished run"),
        ({"frozen": "pretrained:weights={file}"}, "does not say which encoder it is of"),
        (
            {"frozen": "pretrained:weights={file},base=convnet"},
            "do not fit convnet for images of 1x12x12: 'output.bias'",
        ),
        ({"frozen": "pretrained:weights={file},base=resnet18"}, "do not fit resnet18"),
        ({"frozen": "pretrained:weights={text}"}, "cannot be read"),
        ({"frozen": nn.Conv2d(1, 2, 3)}, "must make one feature vector of each image"),
        ({"frozen": "identity", "perturb": "wap"}, "this encoder has none that are trained"),
    ],
)
def test_weights_that_cannot_be_used(tmp_path, given, said):
    torch.save({"output.bias": torch.zeros(3)}, tmp_path / "weights.pt")
    (tmp_path / "notes.pt").write_text("no weights")
    places = {"file": tmp_path / "weights.pt", "text": tmp_path / "notes.pt"}
    given = {name: value.format(**places) if isinstance(value, str) else value for name, value in given.items()}
    with pytest.raises(MocaError, match=said) as told:
        ContinualClassifier(**OPTIONS | given).learn(*lesson(0, 1)).learn(*lesson(2, 3))
    assert "\n" not in str(told.value)


def test_another_module_than_the_one_that_was_frozen(tmp_path):
    ContinualClassifier(frozen=Own(), **OPTIONS).learn(*lesson(0, 1)).save(tmp_path / "model")
    with pytest.raises(MocaError, match="not the one that this model learnt with"):
        moca.load_model(tmp_path / "model", device="cpu", frozen=nn.Flatten())
    again = moca.load_model(tmp_path / "model", device="cpu", frozen=Own())
    assert again.score(*lesson(0, 1)) > 0.9
    with pytest.raises(MocaError, match="pass it again"):
        moca.load_model(tmp_path / "model", device="cpu")


def test_vectors_are_learnt_as_they_are(tmp_path):
    random = np.random.default_rng(0)
    means = random.normal(size=(4, 6)) * 4
    y = np.repeat(np.arange(4), 30)
    x = means[y] + random.normal(size=(120, 6))
    model = ContinualClassifier(memory=20, epochs=15, device="cpu")
    for labels in ((0, 1), (2, 3)):
        model.learn(x[np.isin(y, labels)], y[np.isin(y, labels)])
    assert model.score(x, y) > 0.9
    assert model.shape_ == (6, 1, 1)
    model.save(tmp_path / "model")
    again = moca.load_model(tmp_path / "model", device="cpu")
    np.testing.assert_array_equal(again.decision_function(x.tolist()), model.decision_function(x))
    with pytest.raises(MocaError, match="X has 5 features, but ContinualClassifier is expecting 6 features as input"):
        model.predict(x[:, :5])
    with pytest.raises(MocaError, match="learnt vectors; give a table with 6 numbers in a row"):
        model.predict(bars(0, 2))


class Heads(nn.Module):
    """Cuts features into heads of a length that it lets torch infer, as Hugging Face's transformers do, which torch
    refuses for an empty batch."""

    def forward(self, x):
        return x.flatten(1).view(len(x), 4, -1).transpose(1, 2).flatten(1)


def test_an_encoder_that_cannot_take_an_empty_batch():
    model = ContinualClassifier(frozen=Heads(), **OPTIONS).learn(*lesson(0, 1))
    assert model.features(bars(0, 3)).shape == (3, SIDE**2)


@pytest.mark.parametrize("form", [torch.Tensor.requires_grad_, torch.Tensor.bfloat16, list])
def test_vectors_of_any_form_are_learnt_and_judged(form):
    x, y = torch.eye(4).repeat(5, 1), np.arange(20) % 4
    model = ContinualClassifier(epochs=1, memory=10, perturb="none", device="cpu").learn(form(x.clone()), y)
    assert model.score(form(x.clone()), y) == model.score(x, y)


def test_vectors_in_pairs_are_told_what_to_give():
    with pytest.raises(MocaError, match=r"data\[0\] is a vector of 6 numbers; give vectors as a table \(n, d\) with"):
        ContinualClassifier(device="cpu").learn([(np.ones(6), 0), (np.zeros(6), 1)])


def test_a_digest_is_of_the_weights():
    with pytest.warns(MocaWarning, match="of the frozen convnet:width=2 are those of an untrained network"):
        choice = moca.ContinualClassifier(frozen="convnet:width=2", **OPTIONS).learn(*lesson(0, 1)).frozen_
    other = Frozen(choice.choice, choice.shape, choice.protocol, choice.device)
    assert other.digest == choice.digest
    changed = Frozen(choice.choice, choice.shape, choice.protocol, choice.device)
    with torch.no_grad():
        changed.encoder.output.bias[0] += 1
    assert changed.digest != choice.digest


def test_what_a_model_says_of_itself_names_the_encoder(tmp_path, trained):
    _, spec = trained
    ContinualClassifier(frozen=spec, **OPTIONS).learn(*lesson(0, 1)).save(tmp_path / "own")
    about = json.loads((tmp_path / "own" / "versions" / "1" / "about.json").read_text())
    assert about["settings"]["frozen"]["name"] == "convnet"
    assert about["frozen"]["shape"] == [1, SIDE, SIDE]
    assert about["shape"] == [8, 1, 1]
