"""Whole runs on the digits: what they write, how they end, how they go on."""

import json
import math
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

import moca
from moca import MocaError, Result, api, cli
from moca.engine import run as running
from moca.engine.evaluate import evaluate
from moca.engine.folder import RunFolder
from moca.engine.material import Material
from moca.engine.run import Running
from moca.learners.er import ER
from moca.measures import summarise
from moca.models import build_model
from moca.settings import Run, validate
from tests.engine.helpers import begin, complete, finish

FAST = {
    "data": "digits",
    "memory": 40,
    "epochs": 1,
    "lr": 0.1,
    "schedule": "constant",
    "model": "mlp:width=16,depth=1,features=8",
    "head": "cosine:scale=8",
    "device": "cpu",
    "threads": 1,
}
TIMES = ("seconds", "images_per_second", "started")


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def timeless(folder):
    """result.json without what depends on the clock."""
    result = json.loads((folder / "result.json").read_text())
    return {k: v for k, v in result.items() if k not in TIMES}


def assert_same_run(a, b):
    assert timeless(a) == timeless(b)
    assert (a / "steps.jsonl").read_text() == (b / "steps.jsonl").read_text()
    strip = [{k: v for k, v in record.items() if k != "seconds"} for record in lines(a / "tasks.jsonl")]
    assert strip == [{k: v for k, v in record.items() if k != "seconds"} for record in lines(b / "tasks.jsonl")]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return moca.run(**FAST | {"epochs": 2}, perturb="vt", out=tmp_path_factory.mktemp("runs") / "finished")


def test_the_folder_of_a_finished_run(finished):
    folder = finished.folder
    assert sorted(p.name for p in folder.iterdir()) == [
        "learning.pt",
        "model.safetensors",
        "result.json",
        "settings.json",
        "steps.jsonl",
        "tasks.jsonl",
    ]
    assert RunFolder.open(folder).settings() == finished.settings
    steps = lines(folder / "steps.jsonl")
    stream = Material()(finished.settings)[1]
    batches = [math.ceil(len(task.train) / 32) for task in stream]
    assert [s["step"] for s in steps] == list(range(1, 2 * sum(batches) + 1))
    assert [(s["task"], s["epoch"]) for s in steps] == [
        (t, e) for t in range(5) for e in range(2) for _ in range(batches[t])
    ]
    assert finished.steps == len(steps)
    for i, s in enumerate(steps):
        assert s["lr"] == 0.1
        assert s["loss"] == pytest.approx(s["loss_new"] + s.get("loss_replay", 0))
        assert ("loss_replay" in s) == (i > 0)


def test_the_numbers_of_a_finished_run(finished):
    tasks = lines(finished.folder / "tasks.jsonl")
    assert [t["learned"] for t in tasks] == list(range(6))
    assert finished.accuracy_matrix == [t["class_il"] for t in tasks]
    assert finished.task_il_matrix == [t["task_il"] for t in tasks]
    assert all(len(row) == 5 for row in finished.accuracy_matrix + finished.task_il_matrix)
    assert finished.status == "finished"
    assert finished.summary == summarise(finished.accuracy_matrix)
    kept = json.loads((finished.folder / "result.json").read_text())
    assert kept["final_accuracy"] == finished.final_accuracy == pytest.approx(sum(tasks[-1]["class_il"]) / 5)
    assert kept["task_il_accuracy"] == pytest.approx(sum(tasks[-1]["task_il"]) / 5)
    for name in ("average_incremental_accuracy", "forgetting", "bwt", "fwt", "seconds", "images_per_second"):
        assert math.isfinite(kept[name]), name
    # New images twice; 32 replayed at every step but the first, when the memory is empty.
    replayed = 32 * (finished.steps - 1)
    assert kept["images_per_second"] * kept["seconds"] == pytest.approx(2 * 1347 + replayed)
    assert kept["environment"]["torch"] == torch.__version__
    assert kept["environment"]["host"] == platform.node()
    assert kept["environment"]["code"].startswith(moca.__version__)
    assert kept["class_names"] == [str(digit) for digit in range(10)]
    assert abs(datetime.now(UTC) - datetime.fromisoformat(kept["started"])) < timedelta(hours=1)
    assert kept["notes"] == []


def test_the_run_learned_something(finished):
    assert finished.accuracy_matrix[1][0] > 0.9, "two classes of digits"
    assert finished.task_il_accuracy > 0.7


def test_a_result_can_be_loaded(finished):
    loaded = Result.load(finished.folder)
    assert loaded == finished
    assert "finished" in repr(loaded)


def test_the_kept_model_has_the_accuracy_that_was_measured(finished):
    stream = Material()(finished.settings)[1]
    model = build_model(finished.settings.model, finished.settings.head, stream.dataset.shape, 10, seed=99)
    model.load_state_dict(load_file(finished.folder / "model.safetensors"))
    assert evaluate(model, model, stream).class_il == finished.accuracy_matrix[-1]


def test_the_model_is_kept_only_if_wanted(tmp_path):
    moca.run(**FAST, out=tmp_path / "a", keep_model=False)
    assert not (tmp_path / "a" / "model.safetensors").exists()


def test_same_seed_same_run_and_other_seed_another(finished, tmp_path):
    same = moca.run(**FAST | {"epochs": 2}, perturb="vt", out=tmp_path / "same")
    assert_same_run(same.folder, finished.folder)
    other = moca.run(**FAST | {"epochs": 2}, perturb="vt", seed=1, out=tmp_path / "other")
    assert other.accuracy_matrix != finished.accuracy_matrix


def test_joint_has_one_stage_over_all_tasks(tmp_path):
    result = moca.run(**FAST | {"head": "linear", "epochs": 12}, learner="joint", out=tmp_path / "joint")
    assert len(result.accuracy_matrix) == 2
    assert all(len(row) == 5 for row in result.accuracy_matrix)
    assert result.final_accuracy > 0.7
    kept = json.loads((result.folder / "result.json").read_text())
    assert kept["forgetting"] is kept["bwt"] is kept["fwt"] is None
    assert Result.load(result.folder).final_accuracy == result.final_accuracy


def test_validation_never_looks_at_the_test_set(tmp_path, monkeypatch):
    looked = []
    original = running.evaluate
    monkeypatch.setattr(
        running,
        "evaluate",
        lambda model, predict, stream, *stop: looked.append(stream) or original(model, predict, stream),
    )
    moca.run(**FAST, validation=0.2, out=tmp_path / "a")
    digits = moca.load("digits")
    assert len(looked) == 6
    for stream in looked:
        assert stream.test.images.equal(digits.train.images)
        assert {i for t in stream for i in t.test.tolist()}.isdisjoint(i for t in stream for i in t.train.tolist())


@pytest.mark.parametrize(("memory", "noted"), [(1347, True), (5000, True), ("135:per=class", True), (1346, False)])
def test_a_memory_larger_than_the_data_works_and_says_so(tmp_path, memory, noted):
    result = moca.run(**FAST | {"memory": memory}, out=tmp_path / "a")
    assert result.status == "finished"
    assert any("as large as all training data (1347)" in note for note in result.notes) == noted
    assert Result.load(result.folder).notes == result.notes


@pytest.mark.parametrize(
    ("settings", "noted"),
    [
        ({"optimiser": "adamw", "perturb": "wap"}, True),
        ({"optimiser": "adamw", "perturb": "wap:relative=false,step_size=0.3"}, False),
        ({"optimiser": "adamw", "perturb": "gaussian"}, False),
        ({"perturb": "wap:step_size=1"}, False),
    ],
)
def test_steps_that_are_too_small_to_move_features_are_noted(tmp_path, settings, noted):
    result = moca.run(out=tmp_path / "r", epochs=1, device="cpu", **settings)
    assert any("is step_size times lr" in note for note in result.notes) == noted


def test_a_used_folder_is_refused_before_anything_is_done(finished):
    before = (finished.folder / "result.json").read_text()
    with pytest.raises(MocaError, match="already used"):
        moca.run(**FAST, out=finished.folder)
    assert (finished.folder / "result.json").read_text() == before


def break_at(monkeypatch, step):
    """Make the loss of one step NaN."""
    original, calls = ER.losses, []

    def losses(self, new, *replays):
        calls.append(1)
        terms = original(self, new, *replays)
        return terms | {"new": terms["new"] * (math.nan if len(calls) == step else 1)}

    monkeypatch.setattr(ER, "losses", losses)


@pytest.mark.parametrize("step", [1, 7, 12, 45])
def test_a_loss_that_is_not_a_number_stops_the_run_and_keeps_its_metrics(tmp_path, monkeypatch, step):
    break_at(monkeypatch, step)
    result = moca.run(**FAST, out=tmp_path / "a")
    assert result.status == "diverged"
    assert f"at step {step} " in result.message
    assert "\n" not in result.message
    kept = lines(result.folder / "steps.jsonl")
    assert [s["step"] for s in kept] == list(range(1, step))
    assert all(math.isfinite(s["loss"]) for s in kept)
    learned = kept[-1]["task"] if kept else 0
    assert len(lines(result.folder / "tasks.jsonl")) == len(result.accuracy_matrix) == 1 + learned
    saved = json.loads((result.folder / "result.json").read_text())
    assert saved["status"] == "diverged"
    assert saved["message"] == result.message
    assert saved["final_accuracy"] is None, "half a run has no final accuracy"
    assert not (result.folder / "checkpoint.pt").exists()
    loaded = Result.load(result.folder)
    assert loaded.status == "diverged"
    assert math.isnan(loaded.final_accuracy)
    assert loaded.accuracy_over_tasks == []


def test_an_infinite_loss_stops_the_run_too(tmp_path):
    result = moca.run(**FAST | {"head": "linear", "lr": 1e30}, out=tmp_path / "a")
    assert result.status == "diverged"
    assert "; lower lr. The metrics" in result.message


def interrupt_when(reached):
    """Ctrl-C, sent by the run itself once it has done so many steps."""
    done = 0

    def advance(steps, where):
        nonlocal done
        done += steps
        if done >= reached:
            signal.raise_signal(signal.SIGINT)

    return advance


@pytest.fixture(
    scope="module",
    params=[{"perturb": "vt"}, {"learner": "derpp", "perturb": "gaussian", "optimiser": "sgd:momentum=0.5"}],
    ids=["vt", "derpp"],
)
def uninterrupted(request, tmp_path_factory):
    """A run from its beginning to its end, and its settings."""
    settings = FAST | request.param | {"epochs": 2}
    return settings, moca.run(**settings, out=tmp_path_factory.mktemp("runs") / "whole", keep_model=False)


@pytest.mark.parametrize("reached", [1, 50])
def test_an_interrupted_run_goes_on_exactly(tmp_path, uninterrupted, reached):
    settings, whole = uninterrupted
    half = finish(begin(settings, tmp_path / "half", interrupt_when(reached)))
    assert half.status == "interrupted"
    assert half.message.endswith(f"continue with: moca.resume('{tmp_path / 'half'}')")
    assert not (tmp_path / "half" / "result.json").exists()
    assert 0 < half.steps < whole.steps
    resumed = moca.resume(tmp_path / "half", keep_model=False)
    assert resumed.status == "finished"
    assert_same_run(whole.folder, resumed.folder)
    assert not (tmp_path / "half" / "checkpoint.pt").exists()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_run_that_was_killed_goes_on_from_its_last_finished_task(tmp_path, finished):
    settings = FAST | {"perturb": "vt", "epochs": 2}

    class Killed(Exception):
        pass

    def kill(steps, where):
        if "task 3" in where:
            raise Killed

    with pytest.raises(Killed):
        finish(begin(settings, tmp_path / "killed", kill))
    killed = lines(tmp_path / "killed" / "steps.jsonl")
    assert killed[-1]["task"] == 2, "lines of the third task were written and must be taken back"
    resumed = moca.resume(tmp_path / "killed", keep_model=False)
    assert_same_run(finished.folder, resumed.folder)


def test_ctrl_c_on_the_command_line_and_resume(tmp_path):
    """A real signal to a real process; the run goes on here, in another one."""
    settings = FAST | {"perturb": "gaussian", "epochs": 10}
    words = [word for key, value in settings.items() for word in ("--" + key.replace("_", "-"), str(value))]
    folder = tmp_path / "half"
    process = subprocess.Popen(
        [sys.executable, "-m", "moca", "run", *words, "--out", str(folder)],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    until = time.monotonic() + 60
    while not (folder / "steps.jsonl").exists() and time.monotonic() < until:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert f"continue with: moca resume {folder}" in said
    assert "Traceback" not in said
    stopped = lines(folder / "steps.jsonl")[-1]["step"]
    whole = moca.run(**settings, out=tmp_path / "whole")
    assert 50 <= stopped < whole.steps
    assert moca.resume(folder).status == "finished"
    assert_same_run(whole.folder, folder)
    assert [s["step"] for s in lines(folder / "steps.jsonl")] == list(range(1, whole.steps + 1))
    one, other = (load_file(f / "model.safetensors") for f in (folder, whole.folder))
    assert all(one[name].equal(other[name]) for name in one)


def test_a_finished_run_cannot_go_on(finished):
    with pytest.raises(MocaError, match="cannot be resumed: it has finished"):
        moca.resume(finished.folder)


def test_a_run_killed_before_its_first_checkpoint_starts_anew(tmp_path, finished):
    settings = FAST | {"perturb": "vt", "epochs": 2}

    class Killed(Exception):
        pass

    def kill(steps, where):
        if steps:
            raise Killed

    with pytest.raises(Killed):
        finish(begin(settings, tmp_path / "killed", kill))
    assert (tmp_path / "killed" / "steps.jsonl").exists()
    assert_same_run(finished.folder, moca.resume(tmp_path / "killed", keep_model=False).folder)


def test_whatever_a_killed_run_left_it_begins_anew(tmp_path, finished):
    RunFolder.create(tmp_path / "killed", complete(FAST | {"perturb": "vt", "epochs": 2})).release()
    for left in ("checkpoint.pt.part", "settings.json.part", "model.safetensors", "notes.txt"):
        (tmp_path / "killed" / left).write_text("half")
    assert_same_run(finished.folder, moca.resume(tmp_path / "killed").folder)


def test_a_run_that_cannot_go_on_keeps_its_settings(tmp_path, monkeypatch):
    RunFolder.create(tmp_path / "a", complete(FAST)).release()

    def refuses(settings, stream, outputs):
        raise MocaError("not today")

    with monkeypatch.context() as patch:
        patch.setattr(running, "Trainer", refuses)
        with pytest.raises(MocaError, match="not today"):
            moca.resume(tmp_path / "a")
    assert moca.resume(tmp_path / "a").status == "finished"


def test_a_run_that_another_process_ends_meanwhile_is_left_alone(tmp_path, finished, monkeypatch):
    shutil.copytree(finished.folder, tmp_path / "a")
    (tmp_path / "a" / "result.json").rename(tmp_path / "result.json")
    before = sorted(p.name for p in finished.folder.iterdir())
    claim = RunFolder.claim

    def the_other_ends_first(folder):
        (tmp_path / "result.json").rename(folder.path / "result.json")
        claim(folder)

    monkeypatch.setattr(RunFolder, "claim", the_other_ends_first)
    with pytest.raises(MocaError, match="it has finished"):
        moca.resume(tmp_path / "a")
    assert sorted(p.name for p in (tmp_path / "a").iterdir()) == before
    assert_same_run(finished.folder, tmp_path / "a")


def test_lines_that_were_lost_are_not_made_up(tmp_path):
    half = finish(begin(FAST | {"epochs": 3}, tmp_path / "half", interrupt_when(60)))
    (half.folder / "steps.jsonl").write_text("")
    with pytest.raises(MocaError, match="has lost lines since the run stopped; bring them back, or remove"):
        moca.resume(half.folder)
    (half.folder / "checkpoint.pt").unlink()
    assert moca.resume(half.folder).status == "finished"


@pytest.fixture
def own_images(tmp_path):
    """Settings of a run on a folder of images."""
    images = np.random.default_rng(0).integers(0, 256, (2, 12, 8, 8, 3), dtype=np.uint8)
    for place in np.ndindex(2, 12):
        path = tmp_path / "images" / f"class{place[0]}" / f"{place[1]}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(images[place]).save(path)
    own = {"data": str(tmp_path / "images"), "data_dir": str(tmp_path / "store"), "tasks": 2, "epochs": 20, "batch": 4}
    return FAST | own


def test_a_run_does_not_go_on_with_other_images(tmp_path, own_images):
    half = finish(begin(own_images, tmp_path / "half", interrupt_when(1)))
    assert half.status == "interrupted"
    path = tmp_path / "images" / "class1" / "3.png"
    content = path.read_bytes()
    path.unlink()
    with pytest.raises(MocaError, match=r"have changed since run .* stopped; bring the old ones back"):
        moca.resume(half.folder)
    path.write_bytes(content)
    assert moca.resume(half.folder).status == "finished"


def test_a_run_does_not_go_on_with_other_settings_but_may_go_elsewhere(tmp_path):
    half = finish(begin(FAST, tmp_path / "half", interrupt_when(1)))
    path = half.folder / "settings.json"
    settings = json.loads(path.read_text())
    path.write_text(json.dumps(settings | {"lr": 0.7}))
    with pytest.raises(MocaError, match=r"settings of run .* have changed since it stopped \(lr\)"):
        moca.resume(half.folder)
    elsewhere = {"threads": 2, "device": "auto", "data_dir": str(tmp_path / "store")}
    assert all(settings[name] != value for name, value in elsewhere.items())
    path.write_text(json.dumps(settings | elsewhere))
    assert moca.resume(half.folder).status == "finished"


def test_classes_that_are_left_out_are_told(tmp_path):
    result = moca.run(**FAST | {"tasks": (2, 2, 4)}, out=tmp_path / "a")
    assert result.notes == ["the tasks have 8 of the 10 classes; the others were left out"]


@pytest.mark.parametrize("data", ["images", "./images", "../here/images"])
def test_a_run_finds_its_folder_of_images_from_anywhere(tmp_path, own_images, monkeypatch, data):
    (tmp_path / "here").mkdir()
    (tmp_path / "images").rename(tmp_path / "here" / "images")
    monkeypatch.chdir(tmp_path / "here")
    begun = api._placed(own_images | {"data": data, "data_dir": "../store"})
    half = finish(begin(begun, tmp_path / "half", interrupt_when(1)))
    assert half.status == "interrupted"
    monkeypatch.chdir("/")
    assert moca.resume(half.folder).status == "finished"
    assert moca.run(**begun | {"epochs": 1}, out=tmp_path / "again").settings.data == str(tmp_path / "here" / "images")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("settings.json", "[]", "settings.json is damaged"),
        ("settings.json", "{", "cannot read"),
        ("result.json", "{}", "result.json is damaged; remove it"),
        ("result.json", "[]", "result.json is damaged"),
    ],
)
def test_a_damaged_file_is_named(tmp_path, finished, name, content, said):
    shutil.copytree(finished.folder, tmp_path / "a")
    (tmp_path / "a" / name).write_text(content)
    (tmp_path / "a" / "checkpoint.pt").write_text("kept")
    for read in (Result.load, moca.resume):
        with pytest.raises(MocaError, match=said) as error:
            read(tmp_path / "a")
        assert "\n" not in str(error.value)
    assert (tmp_path / "a" / "checkpoint.pt").read_text() == "kept"


def test_too_much_for_the_memory_is_one_line(tmp_path):
    with pytest.raises(MocaError, match="there is not enough memory for even one run"):
        moca.run(**FAST | {"model": "mlp:width=1000000000000"}, out=tmp_path / "a")


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits on the size of files")
def test_a_full_disk_stops_the_run_in_one_line_and_it_goes_on(tmp_path, capsys):
    import resource

    words = [
        word for key, value in (FAST | {"epochs": 3}).items() for word in ("--" + key.replace("_", "-"), str(value))
    ]
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, hard))
    try:
        with pytest.raises(SystemExit) as end:
            cli.main(["run", *words, "--out", str(tmp_path / "a")])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    said = capsys.readouterr().err
    assert end.value.code == 1
    assert said.splitlines()[-1].endswith("fix that and resume (moca resume, or the same comparison again)")
    assert "Traceback" not in said
    assert moca.resume(tmp_path / "a").status == "finished"


def test_a_diverged_run_cannot_go_on(tmp_path):
    result = moca.run(**FAST | {"head": "linear", "lr": 1e30}, out=tmp_path / "a")
    with pytest.raises(MocaError, match="it has diverged"):
        moca.resume(result.folder)


def test_a_run_that_cannot_be_opened_again_leaves_its_folder_free(tmp_path, monkeypatch):
    half = finish(begin(FAST | {"epochs": 3}, tmp_path / "half", interrupt_when(1)))

    def no_memory(settings, stream, outputs):
        raise torch.OutOfMemoryError("CUDA out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(running, "Trainer", no_memory)
        with pytest.raises(torch.OutOfMemoryError) as kept:
            Running(*Material()(half.settings)).resume(half.folder)
        RunFolder(half.folder).claim()
    assert kept.value.__traceback__ is not None, "what holds on to the folder is still there"


EWC = FAST | {"learner": "ewc"}
"""EWC adds to what it knows of each weight at the end of a task: told twice, it would end elsewhere."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return moca.run(**EWC, out=tmp_path_factory.mktemp("ewc") / "whole")


@pytest.mark.parametrize("learned", [0, 1])
def test_a_stop_while_it_is_tested_is_heeded_and_the_end_of_the_task_is_told_once(
    tmp_path, monkeypatch, whole, learned
):
    tests, original = [], running.evaluate

    def asked(model, predict, stream, stop):
        tests.append(stream)
        if len(tests) == learned + 1:
            interrupt.requested = True
        return original(model, predict, stream, stop)

    interrupt = type("Asked", (), {"requested": False})()
    run = Running(*Material()(validate(Run, EWC))).start(tmp_path / "stopped")
    monkeypatch.setattr(running, "evaluate", asked)
    list(run.steps(interrupt))
    assert run.result.status == "interrupted"
    assert len(run.tested.class_il) == learned
    monkeypatch.setattr(running, "evaluate", original)
    on = moca.resume(tmp_path / "stopped")
    assert on.accuracy_matrix == whole.accuracy_matrix
    assert lines(on.folder / "steps.jsonl") == lines(whole.folder / "steps.jsonl")
