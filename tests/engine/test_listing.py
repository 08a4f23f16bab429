import json
import math
import os
import subprocess
import sys
from contextlib import contextmanager

import pytest

from moca.engine.folder import RunFolder
from moca.engine.listing import Listed, chosen, listed, not_begun, run_folders
from moca.engine.result import Result
from moca.errors import MocaError
from moca.settings import Run, validate
from tests.report.made_results import result, written


def place(tmp_path, name, accuracy=0.5, **settings):
    return written(result(tmp_path, accuracy, **settings), tmp_path / name)


def unfinished(tmp_path, name, *lines):
    folder = RunFolder.create(tmp_path / name, validate(Run, {}))
    (folder.path / "tasks.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return folder


def test_a_finished_run(tmp_path):
    made = result(tmp_path, 0.75, seed=3, perturb="wap", validation=0.1)
    made.started = "2026-01-02T03:04:05+00:00"
    folder = written(made, tmp_path / "a")
    run = Listed.at(folder)
    assert (run.state, run.method, run.data, run.seed, run.learned) == ("finished", "er+wap", "digits", 3, 3)
    assert (run.accuracy, run.started, run.seconds, run.held_out) == (0.75, made.started, 1.5, True)
    assert run.size == sum(file.stat().st_size for file in folder.iterdir())
    assert run.next == f"moca report {folder}"


def test_when_a_run_of_an_older_version_began_is_not_guessed_from_its_files(tmp_path):
    folder = place(tmp_path, "a")
    kept = json.loads((folder / "result.json").read_text())
    for name in ("started", "class_names"):
        del kept[name]
    (folder / "result.json").write_text(json.dumps(kept))
    assert Listed.at(folder).state == "finished" and Listed.at(folder).started == "", "a copy has the time of copying"


def test_states_of_runs_that_did_not_finish(tmp_path):
    line = json.dumps({"learned": 2, "class_il": [0.5], "seconds": 7.5})
    stopped = unfinished(tmp_path, "stopped", line, '{"learned": 3, "cla')
    assert Listed.at(stopped.path).state == "running"
    stopped.release()
    run = Listed.at(stopped.path)
    assert (run.state, run.learned, run.seconds) == ("stopped", 2, 7.5)
    assert run.next == f"moca resume {stopped.path} (from the beginning: its checkpoint.pt is gone)"
    (stopped.path / "checkpoint.pt").write_bytes(b"")
    assert run.started and math.isnan(run.accuracy)
    assert Listed.at(stopped.path).next == f"moca resume {stopped.path}"
    (stopped.path / "lock").write_text("")
    assert Listed.at(stopped.path).state == "stopped", "what a killed process left is no writer"
    (stopped.path / "traceback.txt").write_text("ValueError: mine")
    assert Listed.at(stopped.path).state == "failed"
    (stopped.path / "tasks.jsonl").write_text(json.dumps({"learned": 0, "class_il": [0.1], "seconds": 0.0}))
    assert math.isnan(Listed.at(stopped.path).seconds), "how long the first task took so far is not known"


def test_a_file_that_is_put_in_its_place_meanwhile(tmp_path, monkeypatch):
    folder = place(tmp_path, "a")
    size = Listed.at(folder).size
    (folder / "checkpoint.pt.part").write_bytes(bytes(100))
    scandir = os.scandir

    @contextmanager
    def a_moment_ago(path):
        with scandir(path) as entries:
            found = list(entries)
        (folder / "checkpoint.pt.part").unlink()
        yield found

    monkeypatch.setattr(os, "scandir", a_moment_ago)
    run = Listed.at(folder)
    assert (run.state, run.size) == ("finished", size)


def test_a_run_that_only_python_can_resume_says_so(tmp_path):
    folder = unfinished(tmp_path, "own")
    folder.release()
    settings = json.loads((folder.path / "settings.json").read_text())
    (folder.path / "settings.json").write_text(json.dumps(settings | {"data": {"name": "mine", "own": True}}))
    run = Listed.at(folder.path)
    assert (run.data, run.next) == ("mine", "moca.resume(...) in Python")
    (folder.path / "settings.json").write_text(json.dumps(settings | {"frozen": {"name": "Sequential", "own": True}}))
    assert Listed.at(folder.path).next == "moca.resume(...) in Python"


@pytest.mark.parametrize("name", ["settings.json", "result.json"])
@pytest.mark.parametrize("content", ["", "[]", "{}", '{"status": "finished"', "\udcff", "[" * 100_000])
def test_damaged_files(tmp_path, name, content):
    folder = place(tmp_path, "a")
    (folder / name).write_text(content, errors="surrogateescape")
    run = Listed.at(folder)
    assert run.state == "damaged" and name in run.why


def test_a_run_that_has_lost_its_settings_is_damaged_and_says_how_it_is_done_again(tmp_path):
    """Not invisible, and not taken for one of a comparison that has not begun."""
    lost = place(tmp_path, "c/er-s0")
    place(tmp_path, "c/er-s1")
    asked = {"options": {}, "runs": ["er-s0", "er-s1", "er-s2"]}
    (tmp_path / "c" / "compare.json").write_text(json.dumps(asked))
    (lost / "tasks.jsonl").write_text("{}")
    (lost / "settings.json").unlink()
    damaged, other = listed(tmp_path)
    assert (damaged.folder, damaged.state, other.state) == (lost, "damaged", "finished")
    assert not_begun(tmp_path / "c") == [tmp_path / "c" / "er-s2"]
    told = "settings.json is missing; bring it back, or remove the folder and do the run again"
    assert damaged.next == f"{told}: moca resume {tmp_path / 'c'}"
    for use in (RunFolder.open, lambda path: RunFolder.create(path, validate(Run, {}))):
        with pytest.raises(MocaError, match=r"has lost its settings\.json; bring it back, or remove the folder"):
            use(lost)


def test_a_setting_or_an_option_that_is_not_known_here_is_the_same_to_the_list_and_to_a_report(tmp_path):
    folder = place(tmp_path, "a")
    settings = json.loads((folder / "settings.json").read_text())
    for strange in ({"warp": 9}, {"learner": settings["learner"] | {"warp": 9}}):
        (folder / "settings.json").write_text(json.dumps(settings | strange))
        assert Listed.at(folder).state == "older" and "warp" in Listed.at(folder).why
        with pytest.raises(MocaError, match="warp"):
            Result.load(folder)


@pytest.mark.parametrize(
    "harm",
    [
        lambda kept: {"accuracy_matrix": kept["accuracy_matrix"][:3]},
        lambda kept: {"accuracy_matrix": kept["accuracy_matrix"][:2], "task_il_matrix": kept["task_il_matrix"][:2]},
        lambda kept: {"accuracy_matrix": [row[:-1] for row in kept["accuracy_matrix"]]},
        lambda kept: {"accuracy_matrix": [*kept["accuracy_matrix"][:-1], [None] * 3]},
        lambda kept: {"task_classes": [2, 2]},
        lambda kept: {"final_accuracy": None},
        lambda kept: {"final_accuracy": kept["final_accuracy"] + 0.01},
        lambda kept: {"over_stream": [[10, "half"]]},
        lambda kept: {"status": "fin"},
    ],
)
def test_numbers_that_do_not_belong_together_are_damaged_to_the_list_and_to_a_report(tmp_path, harm):
    folder = place(tmp_path, "a")
    kept = json.loads((folder / "result.json").read_text())
    (folder / "result.json").write_text(json.dumps(kept | harm(kept)))
    run = Listed.at(folder)
    assert (run.state, math.isnan(run.accuracy)) == ("damaged", True)
    assert run.next == f"{run.why}: moca resume {folder}" and "remove it and resume the run" in run.why
    with pytest.raises(MocaError, match=r"result\.json is damaged; remove it"):
        Result.load(folder)


def test_joint_training_has_one_row_for_all_tasks(tmp_path):
    folder = place(tmp_path, "a", [[0.1, 0.1, 0.1], [0.5, 0.6, 0.7]], learner="joint")
    assert Listed.at(folder).accuracy == pytest.approx(Result.load(folder).final_accuracy) == pytest.approx(0.6)


def test_folders_are_found_at_any_depth_and_once(tmp_path):
    folders = [place(tmp_path, name) for name in ("a", "b/c", "b/d/e")]
    assert run_folders(tmp_path, tmp_path / "b", tmp_path / "a") == folders
    with pytest.raises(MocaError, match="is a file, not a folder of runs"):
        run_folders(folders[0] / "result.json")


def test_filters_and_sorting(tmp_path):
    place(tmp_path, "a", 0.5, learner="er", seed=1)
    place(tmp_path, "b", 0.9, learner="derpp")
    place(tmp_path, "c", 0.7, learner="derpp", perturb="wap", data="mnist")
    unfinished(tmp_path, "d").release()
    runs = list(listed(tmp_path))

    def names(**asked):
        return "".join(run.folder.name for run in chosen(runs, **asked))

    assert names() == "abcd"
    assert names(learner=["derpp"]) == "bc"
    assert names(learner=["derpp"], data=["digits"]) == "b"
    assert names(state=["stopped", "running"]) == "d"
    assert names(perturb=["none"], state=["finished"]) == "ab"
    assert names(sort="accuracy") == "bcad"
    assert names(sort="data") == "bdac"
    assert names(sort="state", learner=["er"]) == "ad"


def test_what_makes_another_method_of_a_learner_is_in_its_name(tmp_path):
    place(tmp_path, "a", learner="er:adjust=auto", perturb="wap:angle_cap=30")
    place(tmp_path, "b", learner="er", perturb="wap")
    runs = list(listed(tmp_path))
    assert [run.method for run in runs] == ["er:adjust=auto+wap:angle_cap=30.0", "er+wap"]
    assert [run.folder.name for run in chosen(runs, learner=["er"])] == ["a", "b"]
    assert [run.folder.name for run in chosen(runs, learner=["er:adjust=auto"])] == ["a"]
    for spelt in ("wap:angle_cap=30.0", "wap:angle_cap=30"):
        assert [run.folder.name for run in chosen(runs, perturb=[spelt])] == ["a"]


def test_listing_needs_no_torch(tmp_path):
    place(tmp_path, "a")
    code = (
        "import sys; from moca.cli import main\n"
        f"try: main(['runs', {str(tmp_path)!r}])\n"
        "except SystemExit: pass\n"
        "sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "finished" in done.stdout, done.stderr
