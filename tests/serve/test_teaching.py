"""Lessons through the service: in the background, one at a time, and never to the model's harm."""

import json
import os
import signal
import threading

import numpy as np

from moca.classifier import ModelFolder
from moca.serve import teaching
from moca.serve.limits import Limits
from moca.serve.teaching import LessonRules
from moca.serve.uploads import Readable
from tests.classifier.conftest import bars
from tests.serve.conftest import files, png, serving, until


def ended(client):
    return until(lambda: client.get("/api/teach").json(), lambda lesson: lesson["state"] != "running")


def endless(model):
    """Lessons of this model take longer than anybody waits."""
    about = model.path / "versions" / "1" / "about.json"
    about.write_text(json.dumps(json.loads(about.read_text()) | {"epochs": 1_000_000}))


def test_a_new_class_from_a_few_images(model):
    log = []
    with serving(model.path, log=log.append) as client:
        assert client.get("/api/teach").json()["state"] == "none"
        begun = client.post("/api/teach", files=files(2, 12), data={"class": " bar 2 "})
        assert begun.status_code == 202
        assert (begun.json()["state"], begun.json()["class"], begun.json()["images"]) == ("running", "bar 2", 12)
        refused = client.post("/api/teach", files=files(3, 3), data={"class": "bar 3"})
        assert (refused.status_code, refused.json()["detail"]) == (
            409,
            "a lesson is already running; wait until it has ended",
        )
        assert client.post("/api/predict", files=files(0, 1)).json()["version"] == 1
        lesson = ended(client)
        assert (lesson["state"], lesson["version"], lesson["held"], lesson["told"]) == (
            "used",
            2,
            1,
            "version 2 is in use",
        )
        assert lesson["done"] == lesson["steps"] > 0
        assert lesson["old_before"] == ModelFolder(model.path).about(1)["lesson"]["new_after"]
        assert None not in (lesson["old_after"], lesson["new_after"])
        predicted = client.post("/api/predict?top=3", files=files(2, 4, seed=9)).json()
        assert predicted["version"] == 2
        assert {one["class"] for one in predicted["predictions"][0]["classes"]} == {"bar 0", "bar 1", "bar 2"}
        assert model.about()["lesson"]["new_classes"] == ["bar 2"]
        assert lesson["warnings"] == []

        # What `moca learn` has learnt from files is known here, whatever it is called.
        again = [("images", ("x.png", png(image))) for image in bars(0, 5)]
        client.post("/api/teach", files=again, data={"class": "bar 0"})
        lesson = ended(client)
        assert (lesson["state"], lesson["known"], lesson["otherwise"]) == ("nothing new", 5, {})
        client.post("/api/teach", files=again, data={"class": "bar 1"})
        lesson = ended(client)
        assert (lesson["known"], lesson["otherwise"], lesson["version"]) == (0, {"bar 0": 5}, 3)
        assert lesson["warnings"][0] == (
            "5 images were learnt before as another class, now corrected: 5 as 'bar 0' (the first: x.png)."
        )
    assert log == [
        "version 2 answers, after version 1: + bar 2",
        "lesson of 'bar 0' from 5 images: nothing new: all images were learnt before",
        "version 3 answers, after version 2: more of bar 1; 5 labels corrected",
    ], "a line each, and none for predictions"


def test_a_class_that_may_be_a_known_one_misspelt_is_named(model):
    with serving(model.path) as client:
        client.post("/api/teach", files=files(0, 3), data={"class": "bra 0"})
        (told,) = ended(client)["warnings"]
        assert told.startswith("'bra 0' is a new class, spelt almost like 'bar 0'")


def test_another_version_and_forgetting(model):
    log = []
    with serving(model.path, log=log.append) as client:
        about = client.post("/api/forget", data={"class": "bar 0"}).json()
        assert (about["version"], [one["class"] for one in about["classes"]]) == (2, ["bar 1"])
        assert [one["what"] for one in about["history"]] == ["+ bar 0, bar 1", "forgot bar 0"]
        about = client.post("/api/use", data={"version": 1}).json()
        assert (about["version"], len(about["classes"]), model.current) == (1, 2, 1)
        for path, given, line in (
            ("use", {"version": 7}, "has no version 7; it has 1, 2"),
            ("forget", {"class": "bor 0"}, "there is no class 'bor 0'"),
        ):
            answer = client.post(f"/api/{path}", data=given)
            assert (answer.status_code, line in answer.json()["detail"]) == (409, True)
        with model.teaching():
            assert client.post("/api/use", data={"version": 2}).status_code == 409
    assert model.current == 1
    assert log == [
        "version 2 answers, after version 1: forgot bar 0", "version 1 answers, after version 2: + bar 0, bar 1"
    ]  # fmt: skip


def test_a_class_that_was_forgotten_is_learnt_again_from_the_same_images(model):
    with serving(model.path) as client:
        client.post("/api/forget", data={"class": "bar 0"}).raise_for_status()
        again = [("images", ("x.png", png(image))) for image in bars(0, 20)]
        client.post("/api/teach", files=again, data={"class": "bar 0"})
        lesson = ended(client)
        assert (lesson["version"], lesson["known"], lesson["class"]) == (3, 0, "bar 0")


def test_what_cannot_be_read_is_left_out_of_a_lesson_and_named(template, monkeypatch):
    taught, end = [], threading.Event()

    def held(self, label, given):
        taught.extend(given.images)
        end.wait(10)
        return "this was no lesson", 0

    monkeypatch.setattr(teaching.Teaching, "_run_process", held)
    large, good = png(np.zeros((101, 101), np.uint8)), files(2, 3)
    sent = [*good[:2], ("images", ("a.txt", b"hello")), good[2], ("images", ("large.png", large))]
    with serving(template, limits=Limits(pixels=10_000, rate=0)) as client:
        none = client.post("/api/teach", files=sent[2:3] * 2, data={"class": "bar 2"})
        first = "none of the 2 images can be used; the first: 'a.txt' cannot be used: not an image of a known format"
        assert (none.status_code, none.json()["detail"][: len(first)]) == (415, first)
        begun = client.post("/api/teach", files=sent, data={"class": "bar 2"})
        lines = [
            "'a.txt' cannot be used: not an image of a known format",
            "'large.png' cannot be used: 101x101 pixels are more than 10,000",
        ]
        assert (begun.status_code, begun.json()["images"]) == (202, 3)
        assert [line[: len(told)] for line, told in zip(begun.json()["left_out"], lines, strict=True)] == lines
        unread = client.post("/api/teach", files=sent[2:3], data={"class": "bar 2"})
        assert unread.status_code == 409, "nothing is read for a lesson that cannot be"
        end.set()
        assert ended(client)["left_out"] == begun.json()["left_out"]
    np.testing.assert_array_equal([image[..., 0] for image in taught], bars(2, 3, 5))


def test_a_lesson_that_does_harm_is_not_put_to_use(model):
    log = []
    with serving(model.path, rules=LessonRules(tolerate=-2, device="cpu"), log=log.append) as client:  # all is harm
        client.post("/api/teach", files=files(2, 6), data={"class": "bar 2"})
        lesson = ended(client)
        assert (lesson["state"], lesson["version"]) == ("refused", 2)
        assert "forgot too much" in lesson["told"]
        about = client.get("/api/model").json()
        assert (about["version"], [one["version"] for one in about["history"]]) == (1, [1, 2])
        assert model.current == 1
    assert log == [f"lesson of 'bar 2' from 6 images: {lesson['told']}"]


def test_a_lesson_can_be_stopped_and_ends_with_the_service(model):
    endless(model)
    with serving(model.path) as client:
        assert client.post("/api/teach", files=files(2, 6), data={"class": "bar 2"}).status_code == 202
        assert client.delete("/api/teach").json()["told"] == "the lesson was stopped; the model is unchanged"
        client.post("/api/teach", files=files(2, 6), data={"class": "bar 2"})
        until(lambda: client.get("/api/teach").json(), lambda lesson: lesson["done"] > 2)
        assert client.post("/api/forget", data={"class": "bar 0"}).status_code == 409
    assert (model.current, model.next) == (1, 2)
    with model.teaching():
        pass  # nobody holds it any more


def test_a_lesson_that_cannot_begin_does_not_keep_others_from_it(model, monkeypatch):
    lessons = teaching.Teaching(model, LessonRules(device="cpu"), lambda: None)
    with monkeypatch.context() as patched:
        patched.setattr(teaching, "_context", lambda: (_ for _ in ()).throw(OSError("no more processes")))
        for _ in range(2):
            assert lessons.begin("bar 2", Readable(list(bars(2, 3)), ["a", "b", "c"], [])).state == "running"
            lessons._follower.join()
            assert (lessons.status.state, lessons.status.why) == (
                "failed",
                "the lesson could not be run (no more processes)",
            )


def test_lessons_that_fail_say_why(model):
    endless(model)
    with serving(model.path) as client:
        with model.teaching():
            client.post("/api/teach", files=files(2, 6), data={"class": "bar 2"})
            lesson = ended(client)
        assert lesson["state"] == "failed"
        assert "is being taught by another process" in lesson["told"]
        client.post("/api/teach", files=files(2, 6), data={"class": "bar 2"})
        until(lambda: client.get("/api/teach").json(), lambda lesson: lesson["done"] > 0)
        (process,) = teaching.multiprocessing.active_children()
        os.kill(process.pid, signal.SIGKILL)
        assert "ended unexpectedly (exit code -9); the model is unchanged" in ended(client)["told"]
        assert client.post("/api/predict", files=files(0, 1)).status_code == 200
    assert model.next == 2
