"""What the service tells is what the model tells, whoever asks and however many."""

import base64
import io
import json
import time
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image

from moca import ContinualClassifier, MocaError
from moca.classifier import ModelFolder
from moca.classifier.images import pictures
from moca.classifier.lesson import teach
from moca.classifier.record import Lesson
from moca.serve import app as service
from moca.serve import current_version
from moca.serve.current_version import InUse
from moca.serve.limits import Limits
from moca.serve.uploads import Upload, pixels_of
from tests.classifier.conftest import bars
from tests.serve.conftest import files, png, serving, until


@pytest.fixture(scope="module")
def known(template):
    return ContinualClassifier.load(template, device="cpu")


def test_predictions_are_those_of_the_model(client, known):
    images = np.concatenate([bars(0, 3, 7), bars(1, 3, 7)])
    sent = [("images", (f"a/b\\{n}.png", png(image))) for n, image in enumerate(images)]
    answer = client.post("/api/predict", files=sent).json()
    assert answer["version"] == 1
    assert [one["image"] for one in answer["predictions"]] == [f"{n}.png" for n in range(6)]
    for one, shares in zip(answer["predictions"], known.predict_proba(images), strict=True):
        told = {told["class"]: told["share"] for told in one["classes"]}
        assert told == pytest.approx(dict(zip(["bar 0", "bar 1"], shares.tolist(), strict=True)), abs=6e-5)
        assert list(told.values()) == sorted(told.values(), reverse=True)
    (alone,) = client.post("/api/predict?top=1", files=sent[:1]).json()["predictions"]
    assert alone["classes"] == answer["predictions"][0]["classes"][:1]


def test_nearest_are_the_remembered_images_at_the_smallest_angle(client, known):
    contents = [(name, image) for name, images in known.memory_contents().items() for image in images]
    rows = known.features([image for _, image in contents]).astype(np.float64)
    image = bars(1, 1, 8)[0]
    asked = known.features([image])[0].astype(np.float64)
    cosines = rows @ asked / np.linalg.norm(rows, axis=1) / np.linalg.norm(asked)
    order = np.argsort(-cosines)[:4]

    sent = [("images", ("new.png", png(image))), ("images", ("kept.png", png(contents[7][1][..., 0])))]
    new, kept = client.post("/api/nearest?count=4", files=sent).json()["nearest"]
    assert [one["class"] for one in new["remembered"]] == [contents[i][0] for i in order]
    angles = np.degrees(np.arccos(cosines[order]))
    np.testing.assert_allclose([one["angle"] for one in new["remembered"]], angles, atol=0.06)
    first = kept["remembered"][0]
    assert (first["class"], first["angle"]) == (contents[7][0], 0.0)
    shown = Image.open(io.BytesIO(base64.b64decode(first["png"].removeprefix("data:image/png;base64,"))))
    np.testing.assert_array_equal(np.asarray(shown), contents[7][1][..., 0])


def test_many_at_a_time_are_told_what_each_would_be_told_alone(client):
    requests = [files(n % 2, 1 + n % 3, seed=n) for n in range(8)]
    alone = [client.post("/api/predict", files=some).json() for some in requests]
    with ThreadPoolExecutor(8) as askers:
        together = askers.map(lambda some: client.post("/api/predict", files=some), requests * 4)
        assert [answer.json() for answer in together] == alone * 4


def test_no_thread_ever_finds_the_model_in_training(template):
    """BatchNorm would take statistics of the very images that are asked about, and keep them."""
    version = InUse(template, "cpu").version
    model = version.classifier.learning_.model
    assert not model.training
    version.shares(bars(0, 2)), version.nearest(bars(0, 2), 1)
    assert not any(part.training for part in model.modules())


def test_nor_a_network_of_the_learner_s_own(tmp_path):
    """A teacher is switched to and fro by every answer."""
    options = {"encoder": "resnet18:width=4", "epochs": 2, "memory": 20, "learner": "teacher:of=er_ace"}
    images, names = np.concatenate([bars(0, 20), bars(1, 20)]), ["bar 0"] * 20 + ["bar 1"] * 20
    teach(ModelFolder(tmp_path / "taught"), images, names, options=options, device="cpu")
    version = InUse(tmp_path / "taught", "cpu").version
    asked = [bars(n % 2, 1 + n % 3, seed=n) for n in range(6)]
    alone = [version.shares(some) for some in asked]
    with ThreadPoolExecutor(4) as askers:
        for told, expected in zip(askers.map(version.shares, asked * 10), alone * 10, strict=True):
            np.testing.assert_allclose(told, expected, atol=1e-6)


def test_what_it_says_of_itself(client, template):
    about = client.get("/api/model").json()
    assert (about["name"], about["version"], about["image_size"]) == ("bars", 1, [12, 12, 1])
    assert [(one["class"], one["since"], one["png"]) for one in about["classes"]] == [
        ("bar 0", 1, None),
        ("bar 1", 1, None),
    ]
    (first,) = about["history"]
    assert (first["images"], first["in_use"], first["new_classes"]) == (36, True, ["bar 0", "bar 1"])
    classes = client.get("/api/classes").json()
    assert [one["class"] for one in classes] == ["bar 0", "bar 1"]
    assert all(one["png"].startswith("data:image/png;base64,") for one in classes)
    assert sum(one["remembered"] for one in classes) == 36
    correct = ModelFolder(template).about()["lesson"]["correct"]
    assert [[one["class"], one["correct"], one["held"]] for one in classes] == correct
    assert client.get("/api/health").json() == {"status": "ok", "version": 1, "trouble": False}
    described = client.get("/openapi.json").json()["paths"]
    assert {*described} == {
        f"/api/{name}" for name in ("health", "model", "classes", "predict", "nearest", "teach", "use", "forget")
    }
    assert client.get("/docs").status_code == 404


def bomb():
    """A small file that says it is enormous."""
    file = bytearray(png(np.zeros((2, 2), np.uint8)))
    file[16:24] = (60_000).to_bytes(4, "big") * 2
    file[29:33] = zlib.crc32(file[12:29]).to_bytes(4, "big")
    return bytes(file)


def over(side):
    return png(np.zeros((side, side), np.uint8))


LIMITS = Limits(bytes=60_000, images=4, pixels=10_000, rate=0)
ONE = png(np.zeros((12, 12), np.uint8))
BAD = {
    "a text": ([("images", ("a.txt", b"hello"))], 415, "'a.txt' cannot be used: not an image of a known format"),
    "nothing": ([("images", ("a.png", b""))], 415, "'a.png' cannot be used: not an image of a known format"),
    "a drawing": (
        [("images", ("a.svg", b"<svg xmlns='http://www.w3.org/2000/svg'/>"))],
        415,
        "not an image of a known",
    ),
    "cut off": ([("images", ("a.png", png(bars(0, 1)[0])[:80]))], 415, "'a.png' cannot be used"),
    "a bomb": ([("images", ("a.png", bomb()))], 413, "'a.png' cannot be used: "),
    "too many pixels": ([("images", ("a.png", over(101)))], 413, "101x101 pixels are more than 10,000"),
    "several bad": (
        [("images", ("1.png", b"x")), ("images", ("2.png", over(101)))],
        415,
        "'1.png' cannot be used: not",
    ),
    "too many": ([("images", ("a.png", ONE))] * 5, 413, "5 images are more than the 4 of a request"),
    "too large": ([("images", ("a.png", ONE + bytes(70_000)))], 413, "the request is larger than 0.05"),
    "none": ([("other", ("a.png", ONE))], 422, "there are no images; send at least one, in the field images"),
    "no file": ({"images": (None, "hello")}, 422, "images 0: not a file"),
}


@pytest.fixture(scope="module")
def strict(template):
    with serving(template, limits=LIMITS) as client:
        yield client


@pytest.mark.parametrize("shape", [(1, 12, 12), (3, 12, 12), (1, 8, 14), (3, 14, 8)])
def test_images_are_read_at_once_in_the_shape_of_the_model(shape, tmp_path):
    """As those of files are, and no larger for a while, whatever its sides are."""
    image = np.random.default_rng(0).integers(0, 256, (30, 50, 3), np.uint8)
    (tmp_path / "a.png").write_bytes(png(image))
    (got,) = pixels_of([Upload("a.png", png(image))], shape, Limits())
    assert got.shape == (*shape[1:], shape[0])
    np.testing.assert_array_equal(got.transpose(2, 0, 1), pictures(str(tmp_path / "a.png"), shape)[0])


@pytest.mark.parametrize("path", ["predict", "nearest", "teach"])
@pytest.mark.parametrize("what", BAD)
def test_what_cannot_be_used_is_told_in_one_line(strict, template, what, path):
    given, status, line = BAD[what]
    answer = strict.post(f"/api/{path}", files=given, data={"class": "bar 0"} if path == "teach" else None)
    assert (answer.status_code, [*answer.json()]) == (status, ["detail"])
    assert line in answer.json()["detail"]
    assert "\n" not in answer.json()["detail"]
    assert strict.post("/api/predict", files=[("images", ("a.png", ONE))]).status_code == 200
    assert ModelFolder(template).next == 2


def test_what_is_told_of_each_image_is_of_all_of_them(strict):
    sent = [("images", ("1.png", ONE)), ("images", ("2.png", b"x"))]
    for path in ("predict", "nearest"):
        answer = strict.post(f"/api/{path}", files=sent)
        assert (answer.status_code, answer.json()["detail"][:22]) == (415, "'2.png' cannot be used")


def test_a_body_of_unknown_length_may_not_be_longer_either(strict):
    def body():
        yield b'--x\r\nContent-Disposition: form-data; name="images"; filename="a.png"\r\n\r\n'
        for _ in range(10):
            yield bytes(10_000)

    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    answer = strict.post("/api/predict", content=body(), headers=headers)
    assert (answer.status_code, "larger than" in answer.json()["detail"]) == (413, True)


@pytest.mark.parametrize(
    ("asked", "line"), [("predict?top=0", "top: "), ("predict?top=x", "top: "), ("nearest?count=101", "count: ")]
)
def test_numbers_out_of_range(strict, asked, line):
    answer = strict.post(f"/api/{asked}", files=[("images", ("a.png", ONE))])
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith(line)


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "x" * 101, "\x00"])
def test_names_that_no_class_can_have(strict, name):
    answer = strict.post("/api/teach", files=[("images", ("a.png", ONE))], data={"class": name})
    assert answer.status_code == 422
    assert "a name of 1 to 100 characters" in answer.json()["detail"]


def test_classes_that_are_numbers():
    assert service._label(" 7 ", [3, 5]) == 7
    assert service._label("7", ["3", "5"]) == "7"
    assert service._label("-1", [-1, 1]) == -1, "known"
    with pytest.raises(service.HTTPException, match="whole numbers, and 'seven' is not one"):
        service._label("seven", [3, 5])


def test_names_in_another_spelling():
    """Those of moca learn are in one; labels given in Python are as they are."""
    composed, decomposed = "W\u00fcrfel", "Wu\u0308rfel"
    assert service._label(f" {decomposed} ", ["bar"]) == composed
    assert (
        service._label(composed, ["bar", decomposed]) == service._label(decomposed, ["bar", decomposed]) == decomposed
    )
    assert service._label("bar ", ["bar", "bar "]) == "bar "


def test_another_version_on_disk_is_taken_up_and_a_damaged_one_is_told(model, monkeypatch):
    monkeypatch.setattr(service, "_POLL", 0.05)
    monkeypatch.setattr(current_version, "_AGAIN", 0.05)
    second = ContinualClassifier.load(model.path, device="cpu")
    model.add(second.learn(bars(2, 20), ["bar 2"] * 20), Lesson(used=False))
    log = []
    with serving(model.path, taught=False, log=log.append) as client:
        told = lambda: client.get("/api/model").json()  # noqa: E731
        assert (told()["version"], len(told()["history"])) == (1, 2)
        model.use(2)
        assert [one["class"] for one in until(told, lambda about: about["version"] == 2)["classes"]][-1] == "bar 2"
        model.rollback()
        until(told, lambda about: about["version"] == 1)
        state = model.path / "versions" / "2" / "state.pt"
        whole = state.read_bytes()
        state.write_bytes(b"broken")
        model.use(2)
        about = until(told, lambda about: about["trouble"])
        assert about["version"] == 1
        assert "is damaged: versions/2/state.pt cannot be read" in about["trouble"]
        assert client.get("/api/health").json() == {"status": "ok", "version": 1, "trouble": True}
        assert client.post("/api/predict", files=files(0, 1)).json()["version"] == 1
        time.sleep(0.2)  # it is tried again and told once
        state.write_bytes(whole)
        until(told, lambda about: about["version"] == 2 and about["trouble"] is None)
        model.use(1)
        until(told, lambda about: about["version"] == 1)
        assert client.post("/api/teach", files=files(0, 1), data={"class": "x"}).status_code == 403
        assert client.post("/api/forget", data={"class": "bar 0"}).status_code == 403
        assert client.post("/api/use", data={"version": 2}).status_code == 403
    to_2 = "version 2 answers, after version 1: forgot too much"
    to_1 = "version 1 answers, after version 2: + bar 0, bar 1"
    assert log == [to_2, to_1, about["trouble"], to_2, to_1]


def test_a_version_that_is_asked_for_stays(model, monkeypatch):
    monkeypatch.setattr(service, "_POLL", 0.05)
    with serving(model.path, version=1, taught=False) as client:
        model.add(ContinualClassifier.load(model.path, device="cpu").learn(bars(2, 20), ["bar 2"] * 20))
        time.sleep(0.2)
        about = client.get("/api/model").json()
        assert (about["version"], [past["in_use"] for past in about["history"]]) == (1, [True, False])
        assert client.post("/api/predict", files=files(0, 1)).json()["version"] == 1


@pytest.mark.parametrize("content", ["{", "{}", '{"format": 99}'])
def test_a_version_whose_record_is_damaged_is_told_and_the_others_are_there(model, content):
    second = ContinualClassifier.load(model.path, device="cpu")
    model.add(second.learn(bars(2, 20), ["bar 2"] * 20))
    (model.path / "versions" / "1" / "about.json").write_text(content)
    with serving(model.path, taught=False) as client:
        about = client.get("/api/model").raise_for_status().json()
        assert [(one["class"], one["since"]) for one in about["classes"]] == [
            ("bar 0", None), ("bar 1", None), ("bar 2", 2)
        ]  # fmt: skip
        assert ([one["version"] for one in about["history"]], about["trouble"]) == ([2], None)
        (line,) = about["damaged"]
        assert "versions/1/about.json" in line
        (model.path / "versions" / "2" / "about.json").write_text(content)
        assert client.get("/api/classes").raise_for_status().json()[2]["since"] is None, "it answers nevertheless"


def test_one_model_without_pictures(tmp_path, known):
    """A learner that keeps none."""
    forgetful = ContinualClassifier("finetune", "none", encoder="convnet:width=4,features=8", epochs=1, device="cpu")
    forgetful.learn(np.concatenate([bars(0, 4), bars(1, 4)]), [3] * 4 + [5] * 4).save(tmp_path / "m")
    with serving(tmp_path / "m") as client:
        assert client.post("/api/nearest", files=files(0, 1)).json()["nearest"][0]["remembered"] == []
        assert [one["class"] for one in client.get("/api/classes").json()] == [3, 5]
        assert client.post("/api/predict", files=files(0, 1)).json()["predictions"][0]["classes"][0]["class"] in (3, 5)


def test_answers_are_never_taken_for_a_page(client):
    name = "<img src=x onerror=alert(1)>.png"
    answer = client.post("/api/predict", files=[("images", (name, ONE))])
    assert json.loads(answer.text)["predictions"][0]["image"] == name
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_model_on_frozen_features_answers_and_has_no_pictures_to_show(template, tmp_path):
    images, names = np.concatenate([bars(0, 20), bars(1, 20)]), ["bar 0"] * 20 + ["bar 1"] * 20
    options = {"frozen": f"pretrained:weights={template}", "encoder": "identity", "epochs": 20, "memory": 60}
    teach(ModelFolder(tmp_path / "frozen"), images, names, options=options, device="cpu")
    with serving(tmp_path / "frozen") as client:
        told = client.post("/api/predict", files=files(1, 1)).raise_for_status().json()
        assert "bar 1" in str(told)
        near = client.post("/api/nearest", files=files(1, 1)).raise_for_status().json()
        assert near["nearest"][0]["remembered"] == []


def test_a_model_of_vectors_is_not_served(tmp_path):
    x = np.random.default_rng(0).normal(size=(40, 5)).astype(np.float32)
    ContinualClassifier(memory=20, epochs=1, device="cpu").learn(x, [0, 1] * 20).save(tmp_path / "vectors")
    with pytest.raises(MocaError, match="has learnt vectors"):
        InUse(tmp_path / "vectors", "cpu")
