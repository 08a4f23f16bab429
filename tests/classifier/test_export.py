"""A classifier as an ONNX file: onnxruntime says what `predict` says, and all that it needs is in the file."""

import json
import sys
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import moca
from moca import ContinualClassifier, MocaError, cli
from moca.classifier import export as exporting
from moca.errors import MocaWarning
from tests.classifier.conftest import SIDE, bars, lesson


@pytest.fixture
def opened():
    """A file in onnxruntime; tests that ask for it are skipped where it is missing."""
    for needed in ("onnx", "onnxruntime"):
        pytest.importorskip(needed, reason="needs the extra 'onnx'")
    import onnxruntime

    return onnxruntime.InferenceSession


@pytest.fixture
def taught(small):
    def taught(learner="er_ace", perturb="none", **options):
        model = small(learner=learner, perturb=perturb, epochs=1, **options)
        return model.learn(*lesson(0, 1)).learn(*lesson(2, 3))

    return taught


def agree(session, model, images):
    """Of images as (n, height, width, channels) or grey."""
    bytes_ = images[:, None] if images.ndim == 3 else images.transpose(0, 3, 1, 2)
    scores, probabilities = session.run(["scores", "probabilities"], {"images": bytes_})
    np.testing.assert_allclose(scores, model.decision_function(images), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(probabilities, model.predict_proba(images), atol=1e-5)
    assert (model.classes_[probabilities.argmax(1)] == model.predict(images)).all()


@pytest.mark.parametrize(
    "learner",
    [
        "er_ace",
        "er:adjust=2",
        "icarl",
        "icarl:unit=false",
        "ssil",
        "bic",
        "pass",
        "teacher:of=er",
        "teacher:of=er,form=mkd",
    ],
)
def test_the_file_predicts_as_the_learner_does(taught, opened, tmp_path, learner):
    model = taught(learner)
    if learner == "bic":
        model.learning_.learner.scale[1:3], model.learning_.learner.shift[2] = 0.3, 0.5
    session = opened(model.export(tmp_path / "model.onnx"))
    for count in (1, 7):
        agree(session, model, np.concatenate([bars(c, count, seed=7) for c in range(4)])[::4])


@pytest.mark.parametrize("learner", ["lwf", "ssil", "pass", "icarl"])
def test_a_class_that_did_not_come_is_never_told(taught, opened, tmp_path, learner):
    model = taught(learner)
    inner = model.learning_.learner
    inner.came[2] = -1
    if learner == "icarl":
        inner.means[2] = 0
    session = opened(model.export(tmp_path / "model.onnx"))
    agree(session, model, bars(2, 7))
    assert (session.run(["probabilities"], {"images": bars(2, 7)[:, None]})[0][:, 2] == 0).all()


def test_colour_and_sides_of_two_lengths(small, opened, tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (20, 10, 14, 3), dtype=np.uint8)
    model = small(epochs=1, encoder="resnet18:width=2").learn(images, [0, 1] * 10)
    session = opened(model.export(tmp_path / "model.onnx"))
    (given,) = session.get_inputs()
    assert (given.name, given.type, given.shape) == ("images", "tensor(uint8)", ["n", 3, 10, 14])
    assert [(o.name, o.type, o.shape) for o in session.get_outputs()] == [
        ("scores", "tensor(float)", ["n", 2]),
        ("probabilities", "tensor(float)", ["n", 2]),
    ]
    agree(session, model, images)


def test_the_file_says_what_it_knows(small, opened, tmp_path):
    x, y = lesson(0, 1, 2)
    names = np.array(["Käse", "梨", "ordinary"])
    model = small(epochs=1).learn(x, names[y].tolist())
    session = opened(model.export(tmp_path / "model.onnx"))
    about = json.loads(session.get_modelmeta().custom_metadata_map["moca"])
    assert about["classes"] == model.classes_.tolist()
    assert set(about["classes"]) == set(names.tolist())
    assert about["shape"] == [1, SIDE, SIDE]
    assert about["moca"] == moca.__version__
    assert about["learner"] == "er_ace"
    agree(session, model, x[::7])


def test_the_file_says_which_version_it_is(small, opened, tmp_path):
    def version():
        about = opened(model.export(tmp_path / "model.onnx")).get_modelmeta().custom_metadata_map["moca"]
        return json.loads(about)["version"]

    model = small(epochs=1).learn(*lesson(0, 1, 2))
    assert version() is None
    model.save(tmp_path / "model"), model.save(tmp_path / "model")
    assert version() == 2
    model = moca.load_model(tmp_path / "model", version=1, device="cpu")
    assert version() == 1
    assert model.forget(0) and version() is None
    model = moca.load_model(tmp_path / "model", device="cpu").learn(*lesson(3, count=5))
    assert version() is None, "it has learnt more since"


def test_in_float32_whatever_it_was_trained_in(taught, opened, tmp_path):
    model = taught()
    exact = model.decision_function(bars(1, 7))
    model.learning_.settings = model.learning_.settings.model_copy(update={"precision": "bf16"})
    model.learning_.model.bf16 = True
    assert np.abs(model.decision_function(bars(1, 7)) - exact).max() > 1e-4
    session = opened(model.export(tmp_path / "model.onnx"))
    np.testing.assert_allclose(session.run(["scores"], {"images": bars(1, 7)[:, None]})[0], exact, atol=1e-5)


def test_nothing_is_said_and_the_classifier_goes_on_as_if_nothing_had_happened(taught, opened, tmp_path, capfd):
    one, other = taught("teacher:of=er"), taught("teacher:of=er")
    one.export(tmp_path / "model.onnx")
    assert capfd.readouterr() == ("", "")
    for model in (one, other):
        model.learn(*lesson(4, 5))
    x, _ = lesson(*range(6), seed=7)
    np.testing.assert_array_equal(one.decision_function(x), other.decision_function(x))


class Own(nn.Module):
    """An encoder as people write them."""

    def __init__(self, features):
        super().__init__()
        self.linear, self.features = nn.Linear(SIDE * SIDE, 8), features

    def forward(self, x):
        return self.features(self.linear(x.view(x.size(0), -1)))


def test_an_encoder_of_ones_own(taught, opened, tmp_path):
    model = taught(encoder=Own(nn.Tanh()))
    agree(opened(model.export(tmp_path / "model.onnx")), model, bars(1, 7))


class Attentive(nn.Module):
    """A small vision transformer: the rows of an image are its tokens."""

    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(SIDE, 2, dim_feedforward=16, batch_first=True)

    def forward(self, x):
        return self.layer(x[:, 0]).mean(1)


def test_attention_of_torch(taught, opened, tmp_path):
    model = taught(encoder=Attentive())
    agree(opened(model.export(tmp_path / "model.onnx")), model, bars(1, 7))
    assert torch.backends.mha.get_fastpath_enabled()


@pytest.mark.parametrize(
    ("features", "said"),
    [
        (lambda h: torch.lgamma(h.abs() + 1), "cannot be written as ONNX: .*aten::lgamma"),
        (lambda h: h + 0.1 * torch.arange(len(h.tolist()))[:, None], "onnxruntime cannot use this model: "),
        (lambda h: h * (2.0 if len(h.tolist()) == 2 else 1.0) + 1, "onnxruntime gives other probabilities"),
    ],
    ids=["no such operation", "one size of batch", "other numbers"],
)
def test_what_cannot_be_exported_is_told_and_leaves_what_was_there(taught, opened, tmp_path, capfd, features, said):
    model = taught(encoder=Own(features))
    (tmp_path / "model.onnx").write_text('an earlier one: {"moca": "0.2.0"')
    with pytest.raises(MocaError, match=said) as told:
        model.export(tmp_path / "model.onnx")
    assert "\n" not in str(told.value)
    assert [file.name for file in tmp_path.iterdir()] == ["model.onnx"]
    assert (tmp_path / "model.onnx").read_text().startswith("an earlier one")
    assert capfd.readouterr() == ("", "")


def test_a_file_of_the_users_is_kept(taught, tmp_path):
    (theirs := tmp_path / "model.onnx").write_text("mine")
    with pytest.raises(MocaError, match="is not a model exported by moca, so it is kept"):
        taught().export(theirs)
    assert theirs.read_text() == "mine"
    with pytest.raises(MocaError, match=r"must end in \.onnx"):
        taught().export(tmp_path / "model.py")
    taught().export(tmp_path / "again.onnx")
    taught().export(tmp_path / "again.onnx")


@pytest.mark.parametrize("missing", ["onnx", "onnxruntime"])
def test_without_the_extra(taught, monkeypatch, tmp_path, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(MocaError, match=r"pip install 'moca-cl\[onnx\]'"):
        taught().export(tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_bad_places(taught, opened, tmp_path, small):
    model = taught()
    (tmp_path / "file").touch()
    for place, said in (
        (tmp_path, "is a folder; name a file, such as"),
        (tmp_path / "nowhere" / "model.onnx", "cannot be written: No such file or directory"),
        (tmp_path / "file" / "model.onnx", "cannot be written: Not a directory"),
    ):
        with pytest.raises(MocaError, match=said):
            model.export(place)
    assert [file.name for file in tmp_path.iterdir()] == ["file"]
    with pytest.raises(MocaError, match="learnt nothing yet"):
        small().export(tmp_path / "model.onnx")


def test_where_nothing_is_remembered_random_bytes_are_compared(taught, opened):
    images = exporting._some_images(taught("lwf"))
    assert (images.dtype, images.shape) == (torch.uint8, (16, 1, SIDE, SIDE))
    kept = taught("er")
    memory = {image.tobytes() for of in kept.memory_contents().values() for image in of}
    assert {image.numpy().tobytes() for image in exporting._some_images(kept)} <= memory


def command(*words):
    with pytest.raises(SystemExit) as exit:
        cli.main([str(word) for word in words])
    return exit.value.code or 0


def test_on_the_command_line(taught, opened, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    model = taught()
    model.save("birds")
    for _ in range(2):  # the second takes the place of the first
        assert command("model", "export", "birds", "--to", "onnx") == 0
        out, err = capfd.readouterr()
        assert "birds.onnx (version 1): uint8 images (n, 1, 12, 12) to scores and probabilities of 4 classes" in out
        assert (out.count("\n"), err) == (1, "")
    agree(opened("birds.onnx"), model, bars(1, 7))
    model.learn(*lesson(4)).save("birds")
    assert command("model", "export", "birds") == 0
    assert capfd.readouterr().out.endswith("\nIt takes the place of version 1 with 4 classes (0, 1, 2, 3).\n")
    assert command("model", "export", "birds", "--version", 1, "--out", "first.onnx") == 0
    assert "first.onnx (version 1): " in capfd.readouterr().out
    taught("icarl").save("others/birds")
    assert command("model", "export", "others/birds") == 0
    assert capfd.readouterr().out.endswith("\nIt takes the place of version 2 with 5 classes (0, 1, 2, 3, 4).\n")
    taught().save("more/birds")
    assert command("model", "export", "more/birds") == 0
    told = "It takes the place of version 1 with 4 classes (0, 1, 2, 3).\n"
    assert capfd.readouterr().out.endswith(told), "another model, although it has the same version and classes"
    assert command("model", "export", "birds", "--out", "no/where.onnx") == 1
    assert "'no/where.onnx' cannot be written" in capfd.readouterr().err


def test_a_finished_run(opened, tmp_path):
    options = {"model": "mlp:width=8", "epochs": 1, "tasks": 2, "memory": 20, "device": "cpu", "threads": 1}
    run = moca.run(**options, learner="icarl", out=tmp_path / "run")
    assert command("model", "export", run.folder, "--out", tmp_path / "run.onnx") == 0
    model = ContinualClassifier.load(run.folder, device="cpu")
    session = opened(tmp_path / "run.onnx")
    agree(session, model, moca.load("digits").test.images[:7].permute(0, 2, 3, 1).numpy())
    about = json.loads(session.get_modelmeta().custom_metadata_map["moca"])
    assert about["classes"] == list(moca.load("digits").classes)


@pytest.mark.parametrize("kind", ["frozen", "vectors"])
def test_a_frozen_encoder_is_inside_and_vectors_go_in_as_they_are(opened, tmp_path, kind):
    x, y = lesson(0, 1)
    frozen = {"frozen": "convnet:width=2,features=6"} if kind == "frozen" else {}
    x = x if frozen else x[:, 0].astype(np.float32)
    model = ContinualClassifier(encoder="mlp:width=8,features=4", epochs=2, memory=10, device="cpu", **frozen)
    with pytest.warns(MocaWarning, match="untrained") if frozen else nullcontext():
        file = model.learn(x, y).export(tmp_path / "model.onnx")
    session = opened(file, providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    assert given.name == ("images" if frozen else "vectors")
    (told,) = session.run(["probabilities"], {given.name: x[:, None] if frozen else x})
    np.testing.assert_allclose(told, model.predict_proba(x), atol=1e-4)
    shape = json.loads(session.get_modelmeta().custom_metadata_map["moca"])["shape"]
    assert shape == ([1, SIDE, SIDE] if frozen else [SIDE, 1, 1]), "of what goes in, not of what learns sees"


@pytest.mark.parametrize("kind", ["16-bit", "grey", "transparent", "palette"])
def test_the_guides_program_sees_an_image_as_moca_does(opened, taught, kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = taught()
    model.export("birds.onnx")
    deep = np.random.default_rng(0).integers(0, 65536, (20, 30), dtype=np.uint16)
    grey = Image.fromarray((deep >> 8).astype(np.uint8))
    clear = grey.convert("RGBA")
    clear.putalpha(grey)
    images = {"16-bit": Image.fromarray(deep), "grey": grey, "transparent": clear, "palette": grey.convert("P")}
    images[kind].save("wren.jpg", format="PNG")
    guide = (Path(__file__).parents[2] / "docs" / "export.md").read_text()
    program = guide.partition("```python\n")[2].partition("```")[0]
    ran = {}
    exec(program, ran)
    np.testing.assert_allclose(ran["probabilities"], model.predict_proba(["wren.jpg"]), atol=1e-5)
