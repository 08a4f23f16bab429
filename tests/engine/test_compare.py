"""Comparisons: that none of their runs is lost, repeated or mixed up."""

import csv
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

import moca
from moca import MocaError, Result
from moca.cli.lines import as_lines
from moca.engine import compare as comparing
from moca.engine import pack, subprocesses
from moca.engine.folder import RunFolder
from moca.engine.plan import plan
from moca.errors import Interrupted
from moca.report.spread import Spread
from moca.report.verdict import verdict
from moca.settings import Run, validate

FAST = {
    "model": "mlp:width=8,depth=1,features=4",
    "memory": 20,
    "tasks": 2,
    "batch": 200,
    "epochs": 1,
    "lr": 0.1,
    "device": "cpu",
    "threads": 1,
}


def forget_times(results):
    return [(r.folder.name, r.status, r.accuracy_matrix, r.task_il_matrix, r.steps) for r in results]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return moca.compare(**FAST, perturb=["none", "vt"], seeds=(0, 3), out=tmp_path_factory.mktemp("c") / "out")


def test_each_run_is_the_run_that_it_would_be_alone(made, tmp_path):
    alone = moca.run(**FAST, perturb="vt", seed=3, out=tmp_path / "alone")
    ours = next(r for r in made["er+vt"].results if r.settings.seed.seed == 3)
    assert ours.accuracy_matrix == alone.accuracy_matrix
    assert ours.settings == alone.settings


def test_rows_and_files(made):
    assert [row.label for row in made.rows] == ["er", "er+vt"]
    assert [len(row.finished) for row in made.rows] == [2, 2]
    for row in made.rows:
        values = [Result.load(r.folder).final_accuracy for r in row.results]
        spread = row.spread("final_accuracy")
        assert spread.mean == pytest.approx(np.mean(values))
        assert spread.std == pytest.approx(np.std(values, ddof=1))
    with (made.folder / "runs.csv").open(newline="") as file:
        records = list(csv.DictReader(file))
    assert [(r["method"], r["seed"], r["status"]) for r in records] == [
        (label, seed, "finished") for label in ("er", "er+vt") for seed in ("0", "3")
    ]
    assert [float(r["final_accuracy"]) for r in records] == [r.final_accuracy for r in made.results]
    assert all((made.folder / r["folder"] / "result.json").is_file() for r in records)
    entries = json.loads((made.folder / "comparison.json").read_text())
    assert [e["method"] for e in entries] == ["er", "er+vt"]
    assert entries[1]["forgetting"]["mean"] == pytest.approx(made["er+vt"].spread("forgetting").mean)
    assert entries[1]["seeds"] == 2
    assert entries[1]["not_finished"] == 0


def test_a_comparison_is_printed_as_its_table(made):
    title, _, head, _, *rows = [line.strip() for line in str(made).splitlines()]
    assert title == "In %, mean ± standard deviation"
    assert head.split("  ")[0] == "method"
    assert [row.split()[:2] for row in rows[:2]] == [["er", "2"], ["er+vt", "2"]]
    assert made["er+vt"].spread("forgetting").percent() in rows[1]
    assert " ".join(filter(None, rows[2:])) == verdict(made.settings[0])


def test_the_same_again_takes_finished_runs_as_they_are(made, monkeypatch):
    def never(*args, **kwargs):
        raise AssertionError("a finished run was run again")

    monkeypatch.setattr(comparing, "Running", never)
    again = moca.compare(**FAST, perturb=["none", "vt"], seeds=(0, 3), out=made.folder)
    assert again.results == made.results


def test_more_seeds_later_only_run_the_new_ones(made, tmp_path, monkeypatch):
    folder = shutil.copytree(made.folder, tmp_path / "out")
    started = []
    original = comparing.Running
    monkeypatch.setattr(
        comparing, "Running", lambda s, *args, **kw: started.append(str(s.seed)) or original(s, *args, **kw)
    )
    more = moca.compare(**FAST, perturb=["none", "vt"], seeds=(0, 3, 4), out=folder)
    assert started == ["4", "4"]
    assert [len(row.finished) for row in more.rows] == [3, 3]


def test_runs_that_are_not_in_the_comparison_are_not_left_out_of_its_report_in_silence(made):
    report = (made.folder / "runs.csv").read_text()
    with pytest.raises(
        MocaError, match=r"runs that are not in this comparison \(3, such as er\+vt-s0\); compare .*\(compare\.json"
    ):
        moca.compare(**FAST, perturb=["none"], seeds=1, out=made.folder)
    assert (made.folder / "runs.csv").read_text() == report


def test_processes_share_the_runs_of_a_comparison(made, tmp_path):
    asked = FAST | {"perturb": ["none", "vt"], "seeds": (0, 3), "out": str(tmp_path)}
    code = f"import moca; made = moca.compare(**{asked!r}); print(made.cost.runs if made.cost else 0)"
    until = time.monotonic() + 60
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as other:
        while not list(tmp_path.iterdir()) and time.monotonic() < until:
            time.sleep(0.001)
        here = moca.compare(**asked)
        there = int(other.communicate(timeout=120)[0])
    assert there + (here.cost.runs if here.cost else 0) == 4, "each run is done once"
    assert forget_times(Result.load(tmp_path / r.folder.name) for r in made.results) == forget_times(made.results)
    assert not list(tmp_path.rglob("lock"))


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("ends", [True, False])
def test_a_run_of_another_process_is_waited_for_or_taken_over(made, tmp_path, monkeypatch, jobs, ends, shell_children):
    """The other one ends it, or is stopped."""
    shell_children(lambda folder, _: f"cp -r {made.folder / folder.name}/. $0; printf '{subprocesses.IMAGES}\\t1\\n'")
    monkeypatch.setattr(pack, "_POLL", 0.02)
    theirs, ours = (next(r.folder.name for r in made.results if r.settings.seed.seed == 3 and end in r.folder.name)
                    for end in ("er-s3", "vt-s3"))  # fmt: skip
    folder = RunFolder(tmp_path / theirs)
    folder.claim()
    with ThreadPoolExecutor(1) as elsewhere:
        asked = FAST | {"perturb": ["none", "vt"], "seeds": (3,), "jobs": jobs, "out": tmp_path}
        under_way = elsewhere.submit(lambda: moca.compare(**asked))
        until = time.monotonic() + 60
        while not (tmp_path / ours / "result.json").is_file() and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(0.1)
        assert not under_way.done() and list((tmp_path / theirs).iterdir()) == [tmp_path / theirs / "lock"]
        if ends:
            shutil.copy(made.folder / theirs / "settings.json", tmp_path / theirs)  # a run writes them first
            shutil.copytree(made.folder / theirs, tmp_path / theirs, dirs_exist_ok=True)
        folder.release()
        done = under_way.result()
    assert forget_times(done.results) == forget_times(r for r in made.results if r.settings.seed.seed == 3)
    assert done.cost.runs == (1 if ends else 2)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_run_that_another_process_has_begun_with_other_settings_is_not_taken_for_ours(made, monkeypatch, jobs):
    """Both had looked at the folder before either began."""
    monkeypatch.setattr(comparing, "check", lambda *_: None)
    with pytest.raises(MocaError, match="er-s0' holds a run with other settings"):
        moca.compare(**FAST | {"lr": 0.2}, seeds=(0, 3), jobs=jobs, out=made.folder)


def test_a_run_that_another_process_ends_while_it_is_made_ready_here_is_taken_as_it_is(made, tmp_path, monkeypatch):
    class Slow(comparing.Running):
        def __init__(self, run, *args, **kwargs):
            super().__init__(run, *args, **kwargs)
            shutil.copytree(made.folder / f"er-s{run.seed}", tmp_path / f"er-s{run.seed}")

    monkeypatch.setattr(comparing, "Running", Slow)
    done = moca.compare(**FAST, seeds=(0, 3), out=tmp_path)
    assert forget_times(done.results) == forget_times(r for r in made.results if "+" not in r.folder.name)


@pytest.mark.parametrize("ended", [True, False])
def test_a_child_that_comes_too_late_leaves_its_run_to_the_other_process(made, tmp_path, ended, shell_children):
    """Which has ended it; or lets go of it, and the next child does it."""
    copy = f"cp -r {made.folder / 'er-s0'}/. $0"
    first = f"{copy}; exit 1" if ended else f"exit {subprocesses.HELD}"
    begun = shell_children(lambda _, number: copy if number else first)
    done = moca.compare(**FAST, jobs=2, out=tmp_path)
    assert forget_times(done.results) == forget_times(made.results[:1])
    assert len(begun) == (1 if ended else 2)


def test_the_child_says_so(tmp_path, made):
    shutil.copy(made.folder / "er-s0" / "settings.json", tmp_path)
    other = RunFolder(tmp_path)
    other.claim()
    assert as_lines(tmp_path, keep_model=False, track=None) == subprocesses.HELD


def test_a_child_has_its_run_before_torch_is_loaded(tmp_path, made):
    # Else every process that shares a comparison would begin the same runs, and lose them after seconds of loading.
    shutil.copy(made.folder / "er-s0" / "settings.json", tmp_path)
    other = RunFolder(tmp_path)
    other.claim()
    command = [sys.executable, "-X", "importtime", "-m", "moca", "resume", str(tmp_path), "--progress", "lines"]
    tried = subprocess.run(command, capture_output=True, text=True)
    assert tried.returncode == subprocesses.HELD
    assert not re.search(r" torch$", tried.stderr, re.MULTILINE)


def test_a_run_that_failed_here_and_was_done_by_another_process_is_in_the_table(made, tmp_path, monkeypatch):
    def failing(jobs, *_):
        shutil.copytree(made.folder / "er-s0", tmp_path / "er-s0")
        return [MocaError("no room"), MocaError("no room")]

    monkeypatch.setattr(comparing, "take_turns", failing)
    done = moca.compare(**FAST, seeds=(0, 3), out=tmp_path)
    assert forget_times(done.results[:1]) == forget_times(made.results[:1])
    assert done.mistakes == ["er-s3: no room"]


def test_which_gpu_a_run_is_on_makes_no_other_run():
    one, other, cpu = (validate(Run, {"device": device}) for device in ("cuda", "cuda:1", "cpu"))
    assert comparing._changed(one, other) == []
    assert comparing._changed(one, cpu) == ["device=cuda"]


def test_other_settings_in_the_same_folder_are_refused(made):
    before = sorted(p.name for p in made.folder.iterdir())
    with pytest.raises(MocaError, match=r"holds a run with other settings \(lr=0.1\); choose another") as error:
        moca.compare(**FAST | {"lr": 0.5}, perturb=["none", "vt"], seeds=(0, 3), out=made.folder)
    assert "\n" not in str(error.value)
    assert sorted(p.name for p in made.folder.iterdir()) == before


def test_jobs_side_by_side_give_the_same_numbers_and_a_script_with_them_runs_once_without_any_guard(made, tmp_path):
    asked = FAST | {"perturb": ["none", "vt"], "seeds": (3,), "jobs": 2, "out": "out"}
    (tmp_path / "script.py").write_text(
        f"import moca\nprint('begun')\ndone = moca.compare(**{asked!r})\nprint(len(done.results), done.mistakes)\n"
    )
    told = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True)
    assert told.stdout == "begun\n2 []\n", told.stderr
    expected = [r for r in made.results if r.settings.seed.seed == 3]
    results = [Result.load(tmp_path / "out" / r.folder.name) for r in expected]
    assert forget_times(results) == forget_times(expected)


@pytest.mark.parametrize("jobs", [0, -1, "x", 1.5])
def test_fewer_than_one_job(tmp_path, jobs):
    with pytest.raises(MocaError, match="jobs must be a whole number from 1 on"):
        moca.compare(**FAST, jobs=jobs, out=tmp_path / "out")


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_log_has_a_line_for_each_run_as_it_ends(made, tmp_path, jobs, shell_children, capsys):
    """Not for those that were done before, which count."""
    images = f"printf '{subprocesses.IMAGES}\\t1\\n'"
    shell_children(lambda folder, _: f"cp -r {made.folder / folder.name}/. $0; {images}")
    folder = shutil.copytree(made.folder, tmp_path / "out")
    for name in ("er-s0", "er+vt-s3"):
        shutil.rmtree(folder / name)
    asked = FAST | {"perturb": ["none", "vt"], "seeds": (0, 3), "jobs": jobs, "out": folder}
    moca.compare(**asked)
    assert capsys.readouterr().err == "", "nobody asked for progress"
    for name in ("er-s0", "er+vt-s3"):
        shutil.rmtree(folder / name)
    done = {r.folder.name: r for r in moca.compare(**asked, progress=True).results}
    lines = [line for line in capsys.readouterr().err.splitlines() if " seed " in line]
    numbers = [f"{100 * done[name].final_accuracy:.2f} %, {done[name].seconds:.0f} s" for name in ("er-s0", "er+vt-s3")]
    told = {f"er seed 0: {numbers[0]}", f"er+vt seed 3: {numbers[1]}"}
    assert {line.partition(" ")[2] for line in lines} == told
    counts = [line.partition(" ")[0] for line in lines]
    assert counts in (["3/4", "4/4"], *[["4/4", "4/4"]] * (jobs > 1)), "two may have ended before the first is told"


def test_a_run_that_diverges_does_not_stop_the_others(tmp_path, capsys):
    made = moca.compare(**FAST | {"lr": [1e30, 0.1]}, head="linear", seeds=2, out=tmp_path / "out", progress=True)
    assert [r.status for r in made.results] == ["diverged"] * 2 + ["finished"] * 2
    assert f"1/4 er lr=1e+30 seed 0: diverged: {made.results[0].message}, 0 s\n" in capsys.readouterr().err
    broken, fine = made.rows
    assert broken.finished == []
    assert math.isnan(broken.spread("final_accuracy").mean)
    assert fine.spread("final_accuracy").mean > 0.1
    entries = json.loads((made.folder / "comparison.json").read_text())
    assert entries[0]["not_finished"] == 2
    assert entries[0]["final_accuracy"] == {"mean": None, "std": None}
    assert all(json.loads((r.folder / "result.json").read_text())["message"] for r in broken.results)


def test_ctrl_c_stops_after_the_run_under_way_and_the_same_call_goes_on(tmp_path, monkeypatch):
    arguments = FAST | {"perturb": ["none", "vt", "gaussian"], "batch": 16, "seeds": 1}
    whole = moca.compare(**arguments, out=tmp_path / "whole")

    class Impatient(comparing.ProgressBar):
        def __call__(self, steps, where):
            if "run 2/3" in where:
                signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(comparing, "ProgressBar", Impatient)
        with pytest.raises(Interrupted, match="continues it"):
            moca.compare(**arguments, out=tmp_path / "half")
    statuses = (tmp_path / "half" / "runs.csv").read_text()
    assert statuses.count("finished") == statuses.count("interrupted") == 1
    on = moca.compare(**arguments, out=tmp_path / "half")
    assert forget_times(on.results) == forget_times(whole.results)


def test_a_run_that_was_killed_before_its_first_checkpoint_starts_over(tmp_path):
    whole = moca.compare(**FAST, out=tmp_path / "whole")
    folder = tmp_path / "killed" / "er-s0"
    folder.mkdir(parents=True)
    (folder / "settings.json").write_text((whole.results[0].folder / "settings.json").read_text())
    (folder / "steps.jsonl").write_text('{"step": 1}\n')
    on = moca.compare(**FAST, out=tmp_path / "killed")
    assert forget_times(on.results) == forget_times(whole.results)
    steps = [json.loads(line)["step"] for line in (folder / "steps.jsonl").read_text().splitlines()]
    assert steps == list(range(1, on.results[0].steps + 1))


@pytest.mark.parametrize("jobs", [None, 2])
def test_files_that_no_run_wrote_are_never_removed_and_the_other_runs_are_done(made, tmp_path, jobs, shell_children):
    shell_children(lambda *_: f"cp -r {made.folder / 'er-s3'}/. $0")
    mine = tmp_path / "out" / "er-s0" / "thesis.tex"
    mine.parent.mkdir(parents=True)
    mine.write_text("years of work")
    comparison = moca.compare(**FAST, seeds=2, jobs=jobs, out=tmp_path / "out")
    assert len(comparison.mistakes) == 1
    assert re.fullmatch("er-s0: run folder '.*' is already used; .*", comparison.mistakes[0])
    assert mine.read_text() == "years of work"
    assert Result.load(tmp_path / "out" / "er-s1").status == "finished"
    assert (tmp_path / "out" / "runs.csv").read_text().count("finished") == 1


def cut_result(folder):
    os.truncate(folder / "result.json", 100)


def lose_settings(folder):
    (folder / "settings.json").unlink()


def of_another_version(folder):
    settings = json.loads((folder / "settings.json").read_text())
    (folder / "settings.json").write_text(json.dumps(settings | {"warp": 9}))


@pytest.mark.parametrize("jobs", [1, 2])
def test_runs_that_cannot_be_read_are_named_and_the_others_are_done(made, tmp_path, jobs, shell_children):
    shell_children(lambda folder, _: f"cp -r {made.folder / 'er-s0'}/. $0")
    folder = shutil.copytree(made.folder, tmp_path / "out")
    for name, harm in {"er-s0": cut_result, "er-s3": lose_settings, "er+vt-s0": of_another_version}.items():
        harm(folder / name)
    before = {path: path.read_bytes() for path in folder.glob("*/*.json")}
    more = moca.compare(**FAST, perturb=["none", "vt"], seeds=(0, 3, 4), jobs=jobs, out=folder)
    assert {r.folder.name for r in more.results if r.finished} == {"er+vt-s3", "er-s4", "er+vt-s4"}
    told = sorted(more.mistakes)
    assert [line.partition(":")[0] for line in told] == ["er+vt-s0", "er-s0", "er-s3"]
    assert "cannot be read by moca" in told[0] and "warp" in told[0]
    assert "result.json" in told[1] and "remove it, and the run can be done again" in told[1]
    assert "has lost its settings.json; bring it back, or remove the folder" in told[2]
    assert {path: path.read_bytes() for path in before} == before, "what is left of a run is never removed"


@pytest.mark.parametrize(
    ("values", "text"),
    [([0.5, 0.7], "60.00 ± 14.14"), ([0.5], "50.00"), ([], "-"), ([math.nan], "-"), ([0.25, math.nan], "25.00"),
     ([-0.5, -0.7], "\N{MINUS SIGN}60.00 ± 14.14"), ([-1e-9], "0.00")],
)  # fmt: skip
def test_spread(values, text):
    assert Spread.of(values).percent() == text


@pytest.mark.parametrize(
    ("execution", "jobs", "watchers", "at_a_time"),
    [
        ("auto", None, [], 8),
        ("auto", 3, [], 3),
        ("compiled", 3, [], 1),
        ("auto", 3, [moca.Watcher], 3),  # a watcher each
        ("auto", 3, [moca.Watcher, moca.Watcher()], 1),  # one that is told about all runs
    ],
)
def test_how_many_runs_share_a_gpu(tmp_path, monkeypatch, execution, jobs, watchers, at_a_time):
    asked = []
    monkeypatch.setattr(comparing, "pick_device", lambda name: torch.device("cuda"))
    monkeypatch.setattr(comparing, "take_turns", lambda runs, count, _: asked.append(count) or [None] * len(runs))
    plans = plan(FAST | {"execution": execution}, [0, 1], tmp_path / "out")
    assert comparing.carry_out(plans, jobs, shown=False, watchers=watchers).interrupted
    assert asked == [at_a_time]


def test_an_impossible_run_is_refused_before_any_other_begins(tmp_path):
    with pytest.raises(MocaError, match="captured needs a CUDA device"):
        moca.compare(**FAST | {"device": "cpu"}, execution=["eager", "captured"], out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_run_on_other_images_is_not_taken_for_done(tmp_path):
    generator = np.random.default_rng(0)
    images, labels = generator.integers(0, 255, (40, 8, 8), dtype=np.uint8), np.arange(40) % 4
    given = {"epochs": 1, "tasks": 2, "model": "mlp:width=8,depth=1,features=4", "seeds": 1, "device": "cpu"}
    first = moca.compare(data=(images, labels), out=tmp_path / "out", **given)
    again = moca.compare(data=(images, labels), out=tmp_path / "out", **given)
    assert again.results[0].accuracy_matrix == first.results[0].accuracy_matrix
    with pytest.raises(MocaError, match=r"have changed since run '.*er-s0' was done; bring the old ones back, or choo"):
        moca.compare(data=(images[::-1], labels), out=tmp_path / "out", **given)
