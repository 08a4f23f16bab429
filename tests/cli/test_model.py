"""`moca learn`, `moca predict` and `moca model` as a person types them."""

import csv
import inspect
import io
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.classifier.conftest import bars, folder  # noqa: F401 - a fixture

from moca import MocaError, __version__
from moca.classifier import ContinualClassifier, ModelFolder, load_model
from moca.cli import model as commands

COMMANDS = ("show", "test", "rollback", "prune", "forget", "rename", "export")
QUICK = ("--encoder", "convnet:width=4,features=8", "--epochs", "10", "--memory", "60", "--device", "cpu")


@pytest.fixture
def taught(moca, folder):  # noqa: F811
    code, out, err = moca("learn", folder("january", 0, 1), "--model", "bars", *QUICK)
    assert code == 0
    assert "chosen: images of 12x12 (from the size and number of the images; options override)" in err
    assert "The accuracies rest on few held-out images: 4 of this lesson." in out
    assert "Learnt 36 images of 2 new classes (bar 0, bar 1), 4 held out." in out
    assert "Version 1 of bars is in use." in out
    return folder


def test_a_model_learns_and_tells(moca, taught, tmp_path):
    code, out, _ = moca("learn", taught("february", 2, 3), "--model", "bars")
    assert code == 0
    assert "classes known before" in out
    assert "Version 2 of bars is in use." in out
    correct = ModelFolder("bars").about()["lesson"]["correct"]
    right, held = (sum(counts[place] for counts in correct) for place in (1, 2))
    good = f"{right} of {held} held-out images are classified correctly ({100 * right / held:.1f} %)"
    assert moca("model", "show", "bars")[1].startswith(f"Version 2 is in use: {good}.\n")
    assert "Nothing new: all 40 images" in moca("learn", tmp_path / "february", "--model", "bars")[1]

    images = [tmp_path / "january" / "bar 0" / "0-3.png", tmp_path / "february" / "bar 3"]
    code, out, _ = moca("predict", "bars", *images, "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert len(rows) == 21
    assert "\r" not in out, "awk and cut would take it for a part of the share"
    assert rows[0]["image"] == str(images[0])
    assert sum(row["class"] == "bar 3" for row in rows[1:]) > 15
    code, out, _ = moca("predict", "bars", images[0], "--format", "json", "--top", 3)
    (told,) = json.loads(out)
    assert len(told["classes"]) == 3
    assert told["classes"][0]["share"] >= told["classes"][1]["share"]
    assert "bar 0" in moca("predict", "bars", images[0])[1]


def test_links_are_followed_but_not_in_circles(moca, taught, tmp_path):
    """Lessons follow links to class folders, too."""
    place = tmp_path / "linked"
    place.mkdir()
    (place / "bar 0").symlink_to(tmp_path / "january" / "bar 0")
    (place / "other").mkdir()
    (place / "other" / "bar 1").symlink_to(tmp_path / "january" / "bar 1")
    (tmp_path / "january" / "bar 1" / "back").symlink_to(place)
    (tmp_path / "january" / "bar 1" / "itself").symlink_to(tmp_path / "january" / "bar 1" / "itself")
    (place / "broken.png").symlink_to("nowhere")
    code, out, err = moca("predict", "bars", place, "--format", "csv")
    images = [row["image"] for row in csv.DictReader(io.StringIO(out))]
    assert [sum(name in image for image in images) for name in ("linked/bar 0", "linked/other/bar 1")] == [20, 20]
    assert (code, len(images)) == (1, 41)
    assert "1 of 41 images left out: " in err and "broken.png' cannot be used: a link to a file that does not ex" in err


@pytest.mark.skipif(not os.geteuid(), reason="root may read everything")
def test_a_folder_that_cannot_be_read_is_not_passed_over(moca, taught, tmp_path):
    (tmp_path / "january" / "bar 0").chmod(0)
    code, out, err = moca("predict", "bars", tmp_path / "january")
    (tmp_path / "january" / "bar 0").chmod(0o755)
    assert (code, out) == (1, "")
    assert (
        err
        == f"moca: cannot read the folder {tmp_path / 'january' / 'bar 0'} (Permission denied); check its permissions\n"
    )


def test_what_takes_a_while_is_shown(moca, taught, tmp_path, monkeypatch):
    assert "reading" not in moca("predict", "bars", tmp_path / "january")[2], "what is there at once needs no word"
    monkeypatch.setattr("moca.cli.model._NO_BAR_BELOW", 0)
    monkeypatch.setenv("FORCE_COLOR", "1")  # for rich, a terminal
    told = moca("predict", "bars", tmp_path / "january", "--format", "csv")
    assert all(stage in told[2] for stage in ("reading images", "predicting", "100%"))
    assert told[1].count("\n") == 41, "and not among the answers"


def test_who_reads_no_further_hears_no_complaint(taught, tmp_path):
    """As head does."""
    words = (sys.executable, "-m", "moca", "predict", "bars", str(tmp_path / "january"), "--format", "csv")
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path) as told:
        told.stdout.close()
        assert told.stderr.read() == b""
    assert told.returncode == 1


def test_ctrl_c_in_a_lesson_says_what_became_of_the_model(moca, taught, monkeypatch):
    def stopped(*given, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("moca.classifier.lesson.teach", stopped)
    for model, left in (("bars", "'bars' is unchanged"), ("others", "no model was created")):
        told = moca("learn", taught("february", 2), "--model", model)
        assert told == (130, "", f"moca: the lesson was stopped; {left}\n")


def test_what_cannot_be_read_is_named_and_the_rest_told(moca, taught, tmp_path):
    (tmp_path / "january" / "bar 0" / "text.png").write_text("no image")
    code, out, err = moca("predict", "bars", "january", "--format", "csv")
    assert (code, len(out.splitlines())) == (1, 42)
    assert err.startswith("moca: 1 of 41 images left out: 'january/bar 0/text.png' cannot be used: not an image")
    assert err.count("\n") == 1
    for number in range(4):
        (tmp_path / "january" / "bar 0" / f"bad{number}.png").write_text("no image")
    code, out, err = moca("predict", "bars", "january", "--format", "json")
    entries = json.loads(out)
    assert (code, len(entries), err.endswith("(and 2 more)\n")) == (1, 45, True)
    bad = [*(f"january/bar 0/bad{number}.png" for number in range(4)), "january/bar 0/text.png"]
    assert [entry["image"] for entry in entries if "error" in entry] == bad
    assert entries[-1]["error"].startswith("not an image of a known format") and entries[-1]["classes"] == []
    rows = list(csv.DictReader(io.StringIO(moca("predict", "bars", "january", "--top", 2, "--format", "csv")[1])))
    assert [row["image"] for row in rows if row["error"]] == bad
    assert len(rows) == 2 * 40 + 5
    assert rows[-1] == {"image": bad[-1], "class": "", "share": "", "error": entries[-1]["error"]}
    code, out, err = moca("predict", "bars", "january")
    first, *lines = err.splitlines()
    assert (code, first, len(lines)) == (1, "moca: 5 of 45 images left out", 5)
    assert all(f"moca: '{name}' cannot be used: not an image" in line for name, line in zip(bad, lines, strict=True))
    code, out, err = moca("predict", "bars", "january/bar 0/text.png")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert moca("predict", "bars", "january", "--top", 0)[::2] == (1, "moca: --top 0: must be 1 or more\n")


@pytest.mark.parametrize("files", [["text.png"], ["text.png", "nowhere.png"]])
def test_programs_are_told_of_every_image_even_if_none_can_be_read(moca, taught, files):
    Path("text.png").write_text("no image")
    code, out, err = moca("predict", "bars", *files, "--format", "json")
    entries = json.loads(out)
    assert (code, [entry["image"] for entry in entries], err.count("\n")) == (1, files, 1)
    assert all(entry["error"] and not entry["classes"] for entry in entries)
    rows = list(csv.DictReader(io.StringIO(moca("predict", "bars", *files, "--format", "csv")[1])))
    assert [(row["image"], row["error"]) for row in rows] == [(one["image"], one["error"]) for one in entries]


def test_what_the_reader_of_images_doubts_is_not_printed(moca, taught):
    Image.new("1", (10_000, 9_000)).save("huge.png")
    code, _, err = moca("predict", "bars", "huge.png")
    assert (code, err) == (1, "moca: 'huge.png' cannot be used: 10000x9000 pixels are more than 67,108,864\n")


@pytest.mark.parametrize("words", ["learn", "predict", *(f"model {name}" for name in COMMANDS)])
def test_help_names_every_option(moca, words):
    out = moca(*words.split(), "--help")[1]
    options = inspect.signature(getattr(commands, words.split()[-1])).parameters.values()
    named = [f"--{one.name.replace('_', '-')}" for one in options if one.kind is one.KEYWORD_ONLY]
    named += ["--to"] * (words == "model rollback")
    assert [name for name in named if name not in out] == []


def test_kinds_that_are_not_read_are_named_and_hidden_files_are_not(moca, taught, folder):  # noqa: F811
    place = folder("february", 2)
    image = next((place / "bar 2").iterdir())
    Image.open(image).save(place / "bar 2" / "scan.TIFF")
    image.rename(image.with_name("saved.jfif"))  # what a name says is not looked at
    for name in ("bar 2/._a.png", "__MACOSX/bar 2/a.png", "bar 2/__MACOSX/a.png"):
        hidden = place / name
        hidden.parent.mkdir(parents=True, exist_ok=True)
        hidden.write_bytes(b"a Mac's")
    code, out, _ = moca("learn", place, "--model", "bars")
    assert code == 0
    assert "1 image left out:" in out
    assert "scan.TIFF' cannot be used: TIFF files are not read; save it as PNG or JPEG" in out
    code, out, err = moca("predict", "bars", place, "--format", "csv")
    assert (code, len(out.splitlines())) == (1, 22)
    assert "1 of 21 images left out:" in err
    assert "scan.TIFF" in err and "scan.TIFF" in out


def test_what_a_lesson_does_not_read_is_told(moca, taught, folder):  # noqa: F811
    place = folder("february", 2, count=4)
    for name in ("bar 2/0-0.png", "bar 2/0-1.png"):
        (place / name).rename(place / Path(name).name)
    (place / "bar 2" / "0-2.png").rename(place / "bar 2" / "IMG_2")
    for name in ("notes.txt", ".hidden.png", "bar 2/Thumbs.db", "bar 2/.cache/a", "bar 2/within/c"):
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).touch()
    (place / "bar 0").mkdir()
    (place / "bar 1").mkdir()
    code, out, err = moca("learn", place, "--model", "bars")
    assert (code, "Learnt 1 image of 1 new class (bar 2), 0 held out." in out) == (0, True)
    assert err == (
        f"not read: 2 images beside the class folders (the first: {place}/0-0.png); 2 files without the suffix of an "
        f"image (the first: {place}/bar 2/IMG_2); the empty folders bar 0, bar 1\n"
    )
    assert moca("model", "test", "bars", place)[2] == err
    assert "only 1 of the 3 folders in" in moca("learn", place, "--model", "new")[2], "they are probably no classes"


def test_a_model_among_the_class_folders_is_no_class(moca, folder, monkeypatch):  # noqa: F811
    monkeypatch.chdir(folder("january", 0, 1, count=4))
    assert "not read" not in moca("learn", ".", "--model", "bars", *QUICK)[2]
    assert moca("learn", ".", "--model", "bars")[2] == ""


def test_that_images_are_mirrored_is_told_and_can_be_refused(moca, tmp_path):
    for number in range(8):
        place = tmp_path / "signs" / f"class {number % 2}"
        place.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (12, 12), (200 * (number % 2), 9, number)).save(place / f"{number}.png")
    words = ("learn", "signs", *QUICK, "--model")
    assert "chosen: images of 12x12, mirrored at random (" in moca(*words, "signs-1")[2]
    code, _, told = moca(*words, "signs-2", "--augment", "false")
    assert (code, "mirrored" in told) == (0, False)
    assert not ModelFolder(Path("signs-2")).load(ContinualClassifier, device="cpu").augment
    assert "augment = 'maybe': must be true or false" in moca(*words, "signs-3", "--augment", "maybe")[2]
    assert not Path("signs-3").exists()


def test_what_photographs_were_scaled_down_from_is_told(moca, tmp_path):
    for number in range(8):
        place = tmp_path / "photos" / f"class {number % 2}"
        place.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (120, 90), (200 * (number % 2), 9, number)).save(place / f"{number}.png")
    words = ("learn", "photos", *QUICK, "--augment", "false", "--model")
    told = moca(*words, "photos-1")[2]
    assert "chosen: images of 32x32, scaled down from 120x90 (--image-size keeps more) (" in told
    Image.new("RGB", (400, 300)).save(tmp_path / "photos" / "class 0" / "large.png")
    assert "images of 32x32, scaled down from up to 400x300 (--image-size keeps more)" in moca(*words, "photos-2")[2]
    assert "scaled" not in moca(*words, "photos-3", "--image-size", "48")[2]


def test_a_model_made_in_python_of_numbers(moca, folder):  # noqa: F811
    x, y = np.random.default_rng(0).normal(size=(30, 4)), np.arange(30) % 3
    ContinualClassifier(encoder="mlp:width=8", epochs=1, device="cpu").learn(x, y).save("rows")
    assert "vectors of 4 numbers, sgd with learning rate 0.03" in moca("model", "show", "rows")[1]
    assert "has learnt vectors, not images" in moca("predict", "rows", ".")[2]
    code, _, err = moca("learn", folder("images", 0, count=2), "--model", "rows")
    assert (code, "this classifier has learnt vectors" in err) == (1, True)
    assert moca("model", "forget", "rows", "1")[0] == 0
    assert ContinualClassifier.load("rows", device="cpu").classes_.tolist() == [0, 2]


def test_words_too_many_are_named_without_talk_of_runs(moca):
    code, _, err = moca("model", "forget", "bars", "a", "b")
    assert (code, err) == (2, "moca: unexpected argument 'b': one class is forgotten at a time.\n")
    assert moca("model", "rollback", "bars", "1", "b")[2].endswith(
        "unexpected argument 'b'; --help shows what can be given.\n"
    )
    assert "moca compare" in moca("run", "--learner", "er", "derpp")[2]


def test_images_that_were_of_another_class_are_told(moca, taught, tmp_path):
    assert "another class" not in moca("learn", "january", "--model", "bars")[1]
    (tmp_path / "other" / "bar 1").mkdir(parents=True)
    for name in ("0-0.png", "0-1.png"):
        (tmp_path / "january" / "bar 0" / name).rename(tmp_path / "other" / "bar 1" / name)
    out = moca("learn", "other", "--model", "bars")[1]
    told = "2 images were learnt before as another class, now corrected: 2 as 'bar 0' (the first: other/bar 1"
    assert told in out
    assert "Learnt 2 images of 1 known class (bar 1), 0 held out." in out
    assert "Nothing new" in moca("learn", "other", "--model", "bars")[1]
    for image in (tmp_path / "january" / "bar 0").iterdir():
        image.rename(tmp_path / "other" / "bar 1" / image.name)
    out = moca("learn", "other", "--model", "bars", "--tolerate", "1")[1]
    assert "No images of 'bar 0' are left; to remove the class: moca model forget bars 'bar 0'\n" in out


def test_what_it_knows(moca, taught, tmp_path):
    code, out, _ = moca("model", "show", "bars", "--sheet", tmp_path / "memory.png")
    assert code == 0
    assert "er_ace with gaussian" in out
    assert "1 *" in out
    lines = {" ".join(line.split()) for line in out.splitlines()}
    told = [
        f"{name} 1 18 {right} of {held}" for name, right, held in ModelFolder(Path("bars")).about()["lesson"]["correct"]
    ]
    assert len(told) == 2 and set(told) <= lines, (
        "18 images of each in memory, and how many of the others are classified correctly"
    )
    assert "memory.png (the first 10 of each class, of up to 18)" in out
    with Image.open(tmp_path / "memory.png") as sheet:
        assert sheet.size > (100, 50)


def test_for_programs(moca, taught, tmp_path):
    code, out, err = moca("learn", taught("february", 2), "--model", "bars", "--format", "json")
    lesson = json.loads(out)
    assert (code, err) == (0, "")
    assert (lesson["version"], lesson["used"], lesson["in_use"], lesson["new_classes"]) == (2, True, 2, ["bar 2"])
    assert lesson["images"] + lesson["held"] == 20
    nothing = json.loads(moca("learn", "february", "--model", "bars", "--format", "json")[1])
    assert (nothing["images"], nothing["known"], nothing["in_use"]) == (0, 20, 2)
    code, out, err = moca("model", "show", "bars", "--format", "json", "--sheet", tmp_path / "memory.png")
    model = json.loads(out)
    assert (code, "memory.png" in err, (tmp_path / "memory.png").is_file()) == (0, True, True)
    assert (model["learner"], model["shape"], model["in_use"]) == ("er_ace", [3, 12, 12], 2)
    assert [(one["class"], one["version"], one["held"]) for one in model["classes"]] == [
        ("bar 0", 1, 2), ("bar 1", 1, 2), ("bar 2", 2, 2),
    ]  # fmt: skip
    assert sum(one["in_memory"] for one in model["classes"]) == 54
    assert [about["what"] for about in model["versions"]] == ["+ bar 0, bar 1", "+ bar 2"]
    once = {"left_out", "first_otherwise", "first_twice", "first_copy", "passed_over"}  # told, and not kept
    assert model["versions"][1]["lesson"] == {name: value for name, value in lesson.items() if name not in once}
    for words in (("learn", "nowhere", "--model", "bars"), ("model", "show", "nothing")):
        code, out, err = moca(*words, "--format", "json")
        assert (code, out, err.count("\n")) == (1, "", 1)


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="the time zone cannot be set here")
def test_when_is_told_in_local_time(moca, taught, monkeypatch):
    about = Path("bars/versions/1/about.json")
    facts = json.loads(about.read_text()) | {"when": "2026-03-01T22:30:00+00:00"}
    about.write_text(json.dumps(facts))
    with monkeypatch.context() as local:
        local.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        assert "2026-03-02 07:30" in moca("model", "show", "bars")[1]
    time.tzset()


def test_a_version_that_cannot_be_read_is_left_out_and_told(moca, taught):
    moca("learn", taught("february", 2), "--model", "bars")
    Path("bars/versions/1/about.json").write_text("{")
    code, out, _ = moca("model", "show", "bars")
    assert code == 0
    assert "Left out: model 'bars' is damaged: versions/1/about.json cannot be read" in out
    assert "; remove bars/versions/1\n" in out
    assert [line.split()[2] for line in known(moca).splitlines() if line.startswith(" bar ")] == ["unknown"] * 2 + ["2"]
    model = json.loads(moca("model", "show", "bars", "--format", "json")[1])
    assert [one["version"] for one in model["versions"]] == [2]
    assert [one["version"] for one in model["classes"]] == [None, None, 2]
    assert len(model["damaged"]) == 1 and "versions/1/about.json" in model["damaged"][0]
    Path("bars/versions/2/about.json").write_text("{")
    assert moca("model", "show", "bars")[0] == 1, "nothing is known of the version in use"


def known(moca):
    """The table of classes that is shown."""
    return moca("model", "show", "bars")[1].partition("\n version")[0]


def test_an_earlier_version_can_be_asked(moca, taught):
    february = taught("february", 2)
    moca("learn", february, "--model", "bars", "--tolerate", 1)
    code, out, _ = moca("predict", "bars", february, "--version", 1, "--format", "csv")
    assert code == 0
    assert "bar 2," not in out
    assert "has no version 7; it has 1, 2" in moca("predict", "bars", february, "--version", 7)[2]
    out = moca("model", "show", "bars", "--version", 1)[1]
    assert out.startswith("Version 1 is not in use: ") and " bar 2" not in out.partition("\n version")[0]
    assert "2 *" in out
    shown = json.loads(moca("model", "show", "bars", "--version", 1, "--format", "json")[1])
    assert (shown["version"], shown["in_use"], len(shown["classes"])) == (1, 2, 2)
    assert "has no version 7" in moca("model", "show", "bars", "--version", 7)[2]


@pytest.mark.parametrize(
    "words",
    ["learn january --model bars", "serve bars", "model show bars", "model rollback bars", "model export bars"],
)
def test_the_version_is_never_mocas_own(moca, words):
    """A command with it was done with exit code 0, without having done anything."""
    code, out, _ = moca(*words.split(), "--version", 1)
    assert (code > 0, out) == (True, "")
    assert moca("--version")[:2] == (0, f"{__version__}\n")


def test_a_test_of_a_model(moca, taught, tmp_path):
    moca("learn", taught("february", 2), "--model", "bars", "--tolerate", 1)
    (tmp_path / "february" / "bar 2" / "text.png").write_text("no image")
    code, out, err = moca("model", "test", "bars", "february", "--format", "json")
    told = json.loads(out)
    assert (code, err, told["version"], told["images"], len(told["left_out"])) == (0, "", 2, 20, 1)
    assert told["accuracy"] == told["correct"] / 20
    assert told["classes"] == [{"class": "bar 2", "correct": told["correct"], "images": 20}]
    assert sum(one["images"] for one in told["confused"]) == 20 - told["correct"]
    code, out, _ = moca("model", "test", "bars", "february")
    assert code == 0
    assert out.startswith(f"Version 2 of bars: {told['correct']} of 20 images are classified correctly (")
    assert "\n1 image left out: 'february/bar 2/text.png' cannot be used" in out
    assert "\n20 images were learnt or held out by this model and test little.\n" in out
    code, _, err = moca("model", "test", "bars", "february", "--version", 1)
    assert (code, "20 of 20 images are of 1 class that the model does not know (bar 2)" in err) == (1, True)
    assert taught("february", 1) and moca("model", "test", "bars", "february", "--version", 1)[0] == 0


def test_back_to_an_earlier_version(moca, taught):
    moca("learn", taught("february", 2), "--model", "bars")
    assert "Version 1 of bars is in use." in moca("model", "rollback", "bars")[1]
    assert "bar 2" not in known(moca)
    assert moca("model", "rollback", "bars", "--to", 2)[:2] == (0, "Version 2 of bars is in use.\n")
    told = "It does not know bar 2. To return to version 2, which does: moca model rollback bars --to 2\n"
    assert moca("model", "rollback", "bars", 1)[:2] == (0, f"Version 1 of bars is in use.\n{told}")
    code, _, err = moca("model", "rollback", "bars", "--to", 7)
    assert (code, err) == (1, "moca: model 'bars' has no version 7; it has 1, 2\n")


def test_old_versions_are_deleted(moca, taught, monkeypatch):
    for label in (2, 3, 4):
        moca("learn", taught(f"month {label}", label, count=5), "--model", "bars", "--tolerate", 1)
    sizes = {
        number: sum(file.stat().st_size for file in Path(f"bars/versions/{number}").iterdir()) for number in (1, 2)
    }
    told = json.loads(moca("model", "show", "bars", "--format", "json")[1])["versions"]
    assert {one["version"]: one["bytes"] for one in told if one["version"] < 3} == sizes
    assert "To delete old ones" not in moca("model", "show", "bars")[1]
    code, out, _ = moca("model", "prune", "bars")
    assert (code, out) == (0, "Nothing to delete. Left: 1, 2, 3, 4; 4 is in use.\n")
    with monkeypatch.context() as fewer:
        fewer.setattr("moca.cli.model._KEEP", 3)
        assert "To delete old ones: moca model prune bars" in moca("model", "show", "bars")[1]
    code, out, _ = moca("model", "prune", "bars", "--keep", 2)
    freed = f"{sum(sizes.values()) / 1000:.1f} kB"
    assert (code, out) == (0, f"Deleted 2 versions of bars (1, 2), {freed}. Left: 3, 4; 4 is in use.\n")
    learnt_in = [line.split()[2] for line in known(moca).splitlines() if line.startswith(" bar ")]
    assert learnt_in == ["deleted", "deleted", "deleted", "3", "4"]
    assert moca("model", "prune", "bars", "--keep", 0)[::2] == (1, "moca: --keep 0: must be 1 or more\n")
    assert moca("model", "prune", "nothing")[0] == 1 and not Path("nothing").exists()


def test_a_class_is_forgotten(moca, taught):
    moca("learn", taught("february", 2), "--model", "bars")
    code, out, _ = moca("model", "forget", "bars", "bar 0")
    assert (code, out.split(".")[0]) == (0, "'bar 0' is forgotten; version 3 of bars is in use")
    assert "Earlier versions still have it" in out
    assert "bar 0" not in known(moca)
    shown = moca("model", "show", "bars")[1]
    for what in ("+ bar 0, bar 1  ", "+ bar 2  ", "forgot bar 0  "):
        assert what in shown
    assert "Earlier" not in moca("learn", taught("march", 4), "--model", "bars")[1]
    assert moca("model", "forget", "bars", "bar 1", "--all-versions")[0] == 0
    code, _, err = moca("model", "forget", "bars", "bar 0")
    assert (code, "versions 1, 2 still have it; --all-versions removes it from them too" in err) == (1, True)
    code, out, _ = moca("model", "forget", "bars", "bar 0", "--all-versions")
    assert (code, "version 5 of bars is in use" in out) == (0, True), "nothing new to put to use"
    versions = ModelFolder(Path("bars")).versions
    assert [about["classes"] for about in versions if {"bar 0", "bar 1"} & {*about["classes"]}] == []
    out = moca("learn", "january", "--model", "bars")[1]
    assert out.startswith("40 images were forgotten with their class and skipped; --relearn teaches them after all.\n")
    assert "Nothing new. Model: bars" in out
    assert "Learnt 36 images of 2 new classes" in moca("learn", "january", "--model", "bars", "--relearn")[1]
    code, _, err = moca("model", "forget", "bars", "bor 2")
    assert (code, "there is no class 'bor 2'" in err) == (1, True)


def test_a_class_is_renamed(moca, taught, tmp_path):
    moca("learn", taught("february", 2), "--model", "bars", "--tolerate", 1)
    image = tmp_path / "january" / "bar 0" / "0-3.png"
    before = json.loads(moca("predict", "bars", image, "--top", 3, "--format", "json")[1])[0]["classes"]
    code, out, _ = moca("model", "rename", "bars", "bar 0", " rod ")
    assert (code, out.splitlines()[0]) == (0, "'bar 0' is now 'rod'; version 3 of bars is in use.")
    after = json.loads(moca("predict", "bars", image, "--top", 3, "--format", "json")[1])[0]["classes"]
    other = {"bar 0": "rod"}
    assert after == [one | {"class": other.get(one["class"], one["class"])} for one in before], "only the name differs"
    two, three = (ModelFolder(Path("bars")).load(ContinualClassifier, number, device="cpu") for number in (2, 3))
    for one, same in zip(two.learning_.model.parameters(), three.learning_.model.parameters(), strict=True):
        assert one.equal(same)
    kept = three.memory_contents()
    assert {other.get(name, name): len(images) for name, images in two.memory_contents().items()} == {
        name: len(images) for name, images in kept.items()
    }
    shown = json.loads(moca("model", "show", "bars", "--format", "json")[1])
    assert [(one["class"], one["version"]) for one in shown["classes"]] == [("rod", 1), ("bar 1", 1), ("bar 2", 2)]
    assert all(one["held"] == 2 for one in shown["classes"])
    assert shown["versions"][2]["what"] == "renamed bar 0 to rod"
    (tmp_path / "january" / "bar 0").rename(tmp_path / "january" / "rod")
    assert "Nothing new: all 40 images were learnt before." in moca("learn", "january", "--model", "bars")[1]
    for words, said in {
        ("rod", "bar 1"): "there is a class 'bar 1' already; to join them, teach the images of 'rod' as 'bar 1'",
        ("rad", "x"): "there is no class 'rad'; did you mean 'rod'?",
        ("rod", " "): "a class needs a name",
    }.items():
        assert moca("model", "rename", "bars", *words) == (1, "", f"moca: {said}\n")
    code, out, _ = moca("model", "forget", "bars", "rod", "--all-versions")
    assert out.endswith("; to remove that: moca model forget bars 'bar 0' --all-versions\n")
    assert "'bar 0'" not in moca("model", "forget", "bars", "bar 0", "--all-versions")[1].partition("\n")[2]
    assert not [path for path in Path("bars").rglob("*.json") if {"bar 0", "rod"} & {*path.read_text().split('"')}]


def test_a_name_that_is_another_class_now_is_not_offered_to_be_forgotten(moca, taught):
    moca("model", "rename", "bars", "bar 0", "rod")
    assert "Before it was renamed it was 'bar 0'" in moca("model", "forget", "bars", "rod")[1]
    moca("model", "rollback", "bars")
    moca("model", "rename", "bars", "bar 1", "bar 0")
    code, out, _ = moca("model", "forget", "bars", "rod")
    assert (code, "Before" in out) == (0, False)


def test_a_harmful_lesson_says_so(moca, folder):  # noqa: F811
    finetune = ("--learner", "finetune", "--perturb", "none")
    moca("learn", folder("january", 0, 1), "--model", "bars", *QUICK, *finetune)
    code, _, err = moca("model", "show", "bars", "--sheet", "memory.png")
    assert (code, "the memory of 'bars' holds no images; leave out --sheet" in err) == (1, True)
    code, out, _ = moca("learn", folder("february", 2, 3), "--model", "bars")
    assert code == 3
    assert "Version 2 forgot too much and is kept, but not in use; version 1 still is. To use version 2" in out
    assert "moca model rollback bars --to 2" in out
    code, again, _ = moca("learn", "february", "--model", "bars")
    assert (code, len(ModelFolder(Path("bars")).versions)) == (3, 2)
    learnt = "36 images of 2 new classes (bar 2, bar 3), 4 held out"
    assert again.startswith(f"Not taught again: version 2 has learnt {learnt}, already.\n")
    assert again.partition("\n")[2] == out.partition("\n")[2], "the accuracies and what to do"
    code, out, _ = moca("learn", folder("march", 4), "--model", "bars")
    told = "Version 2 (bar 2, bar 3) was not put to use and is not part of this one; teach its images again, or use it "
    assert (code, f"{told}instead: moca model rollback bars --to 2\n" in out) == (3, True)
    code, out, _ = moca("learn", "february", "--model", "bars", "--tolerate", 1)
    assert (code, "Version 2 of bars is in use." in out) == (0, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("predict", "nothing", "a.png"), "there is no model 'nothing'; moca learn FOLDER --model nothing makes it"),
        (("predict", "no model", "a.png"), "there is no model 'no model'; moca learn FOLDER --model 'no model' makes"),
        (
            ("predict", __file__, "a.png"),
            "is not a model; give the folder of one; moca learn FOLDER --model NAME makes",
        ),
        (("predict", "a.png"), "a model and images are needed, and 'a.png' is not a model: moca predict MODEL IMAGES"),
        (("model", "show", "nothing"), "there is no model 'nothing'"),
        (("model", "rollback", "nothing"), "there is no model 'nothing'"),
        (("model", "forget", "nothing", "bar 0"), "there is no model 'nothing'"),
        (("model", "export", "nothing"), "there is no model 'nothing'"),
        (("learn", "nowhere", "--model", "bars"), "folder 'nowhere' is not there; give one with a folder of images"),
        (("learn", ".", "--model", "bars"), "'.' is no folder with a folder of images for each class: "),
        (("learn", __file__, "--model", "bars"), "is no folder with a folder of images for each class: it is a file"),
        (
            ("learn", Path(__file__).parents[1], "--model", "bars"),
            "is no folder with a folder of images for each class: there is no image in it",
        ),
        (("learn", ".", "--model", f"{__file__}/bars"), "bars' cannot be made: Not a directory; choose another place"),
        (
            ("learn", ".", "--model", "bars", "--held-out", "2"),
            "--held-out 2 is not a share from 0 to below 1 (a tenth is 0.1)",
        ),
        (("learn", ".", "--model", "bars", "--tolerate", "20"), "--tolerate 20 is not a share from 0 to 1 (20 points"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(moca, tmp_path, words, said):
    code, _, err = moca(*words)
    assert code == 1
    assert err.count("\n") == 1
    assert said in err
    assert not list(tmp_path.iterdir())


def test_a_run_without_weights_is_no_model_and_how_they_are_kept_is_told_in_both_languages(moca, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "settings.json").touch()
    told = (
        "moca: 'run' is not a model; the run has not ended, or its weights were not kept; --record weights keeps them\n"
    )
    assert moca("model", "show", "run") == (1, "", told)
    with pytest.raises(MocaError, match=r"not kept; record=weights keeps them$"):
        load_model("run")


def test_folders_that_may_be_classes_are_told(moca, folder, tmp_path):  # noqa: F811
    folder("months/january", 0, 1)
    folder("months/february", 2, 3)
    code, _, err = moca("learn", "months", "--model", "bars", *QUICK)
    said = "the images of 'february' lie in 2 folders (bar 2, bar 3) and are learnt as one class; if those folders are"
    assert (code, said in err, "give months/february" in err) == (0, True, True)
    (tmp_path / "more" / "january" / "x").mkdir(parents=True)
    (tmp_path / "more" / "january" / "y").mkdir()
    for number, inner in enumerate("xy"):
        Image.fromarray(bars(number, 1, 9)[0]).save(tmp_path / "more" / "january" / inner / "1.png")
    assert "learnt as one class" not in moca("learn", "more", "--model", "bars")[2], "of a known class it is known"


def test_options_of_a_model_that_is_there(moca, taught, tmp_path):
    code, _, err = moca("learn", taught("february", 2), "--model", "bars", "--learner", "er")
    assert code == 1
    assert "'bars' already exists, so --learner cannot be changed; leave it out, or create another model" in err
    _, _, err = moca("learn", "february", "--model", "bars", *QUICK, "--image-size", "16", "--seed", "1")
    assert "so --image-size, --seed cannot be changed; leave them out" in err
    assert moca("learn", "february", "--model", "bars", *QUICK)[0] == 0, "as it was created"
    assert "For a new model" in moca("learn", "--help")[1]
    (tmp_path / "broken.png").write_bytes(b"no image")
    (tmp_path / "empty").mkdir()
    assert "moca: 'empty' has no subfolders; each class needs one\n" in moca("learn", "empty", "--model", "bars")[2]
    for words, said in {
        ("bars", tmp_path / "broken.png"): "broken.png' cannot be used: not an image of a known format (PNG, JPEG,",
        ("bars", "nowhere.png"): "'nowhere.png' cannot be used: there is no such file; check its path",
        ("bars", "empty"): "there is no image in 'empty'; give images, or a folder that has some",
        ("bars",): "a model and images are needed: moca predict MODEL IMAGES",
    }.items():
        code, _, err = moca("predict", *words)
        assert (code, err.count("\n"), said in err) == (1, 1, True), err


def test_a_frozen_encoder_and_a_memory_in_bytes(moca, taught, tmp_path):
    words = ("--frozen", "pretrained:weights=bars", "--encoder", "identity", "--memory", "2kB", "--epochs", "10")
    assert moca("learn", taught("february", 2, 3), "--model", "quick", *words, "--device", "cpu")[0] == 0
    out = moca("model", "show", "quick")[1]
    assert "identity on features of convnet:width=4,features=8, frozen, images of 12x12x3" in out
    assert moca("model", "show", "quick", "--sheet", "x.png")[2].startswith(
        "moca: the memory of 'quick' holds features"
    )
    assert moca("predict", "quick", tmp_path / "february" / "bar 2", "--format", "csv")[1].count("bar 2") >= 20


@pytest.mark.filterwarnings("always::moca.errors.MocaWarning")
def test_random_weights_that_are_frozen_are_told(moca, folder):  # noqa: F811
    words = ("--frozen", "convnet:width=2", "--encoder", "identity", "--epochs", "1", "--memory", "4")
    code, _, err = moca("learn", folder("january", 0, 1, count=2), "--model", "m", *words, "--device", "cpu")
    assert (code, err.count("untrained")) == (0, 1)
    assert err.startswith("moca: the features of the frozen convnet:width=2 are those of an untrained network")
    assert "untrained" not in moca("learn", folder("february", 2, count=2), "--model", "m")[2], "kept, and no news"
    assert "untrained" not in moca("learn", "january", "--model", "n", "--frozen", "identity", *words[2:])[2]


def test_it_is_told_where_forgetting_cannot_be_noticed(moca, folder):  # noqa: F811
    words = (*QUICK, "--held-out", "0")
    _, first, _ = moca("learn", folder("january", 0, 1), "--model", "bars", *words)
    assert "is not known" not in first
    _, second, _ = moca("learn", folder("february", 2), "--model", "bars", "--held-out", "0")
    assert "No images of classes known before are held out" in second
