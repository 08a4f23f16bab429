"""Runs as child commands: real processes, killed and interrupted for real."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial

import pytest

from moca import MocaError, Result
from moca.engine.folder import RunFolder
from moca.engine.progress import ProgressBar
from moca.engine.subprocesses import side_by_side
from tests.engine.helpers import begin, complete, finish

SHORT = {
    "data": "digits",
    "memory": 40,
    "epochs": 1,
    "model": "mlp:width=16,depth=1,features=8",
    "device": "cpu",
    "threads": 1,
}


def carried_out(runs, jobs):
    return side_by_side([(f"run {i}", run) for i, run in enumerate(runs)], jobs, ProgressBar(1, shown=False))


def a_run(out, **settings):
    def folder():
        RunFolder.create(out, complete(SHORT | settings)).release()
        return out

    return folder


def when(there, what):
    """Do something in another thread once a file is there."""

    def wait():
        until = time.monotonic() + 60
        while not there.exists() and time.monotonic() < until:
            time.sleep(0.02)
        what()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_runs_are_done_and_say_how_many_images_they_saw_and_a_mistake_of_others_is_told_in_their_lines(tmp_path):
    """Of one that cannot be begun, and of one where only the child finds it."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "thesis.tex").write_text("years of work")

    def half():
        a_run(tmp_path / "b")()
        (tmp_path / "b" / "checkpoint.pt").write_text("half")
        return tmp_path / "b"

    told = []
    bar = ProgressBar(1, shown=False)
    bar.__class__ = type("Told", (ProgressBar,), {"__call__": lambda self, steps, where: told.append((steps, where))})

    def absent():
        settings = a_run(tmp_path / "d")() / "settings.json"
        settings.write_text(json.dumps(json.loads(settings.read_text()) | {"data": "cifar10"}))
        return tmp_path / "d"

    runs = [a_run(tmp_path / "a"), half, a_run(tmp_path / "c"), absent]
    used, damaged, ending, unknown = side_by_side([(f"run {i}", run) for i, run in enumerate(runs)], 2, bar)
    assert isinstance(used, MocaError)
    assert "is already used" in str(used)
    assert isinstance(damaged, MocaError)
    assert str(damaged).endswith("is damaged; remove it, and the run begins anew when resumed")
    assert isinstance(unknown, MocaError)
    assert str(unknown).endswith("; add it with: moca.data.add('cifar10')"), "not in the words of the command line"
    assert isinstance(ending, Result) and ending.status == "finished"
    assert sum(steps for steps, _ in told) == ending.steps
    assert ending.images_this_time == round(ending.images_per_second * ending.seconds)
    assert not list(tmp_path.glob("*/model.safetensors"))


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """The folder of a run that has ended."""
    return finish(begin(SHORT, tmp_path_factory.mktemp("done") / "run")).folder


def test_a_killed_child_takes_its_run_with_it_and_nothing_else(tmp_path, done, shell_children):
    """One run is under way beside it, another is still to come."""
    under_way = "touch $0/here; while [ ! -e $0/../lost/here ]; do sleep 0.02; done; sleep 0.2; "
    copy = f"cp -r {done}/. $0"
    lines = {"lost": "touch $0/here; exec sleep 60", "beside": under_way + copy, "later": copy}
    started = shell_children(lambda folder, _: lines[folder.name])
    thread = when(tmp_path / "beside" / "here", lambda: started[0].kill())
    lost, *others = carried_out([a_run(tmp_path / name) for name in lines], jobs=2)
    thread.join()
    assert str(lost) == "its process was killed; the same comparison again resumes it"
    assert [ending.status for ending in others] == ["finished"] * 2


@pytest.fixture
def broken(monkeypatch, tmp_path):
    """A module that breaks every child as it is loaded."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nif 'resume' in sys.argv and any('broken' in word for word in sys.argv):\n"
        "    import moca.engine.trainer as t\n    def fail(*a): raise ZeroDivisionError('a defect of ours')\n"
        "    t.Schedule.advance = fail\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


TOLD_TO_STOP = "trap 'touch $0/stopped; exit 130' INT; touch $0/listens; while true; do sleep 0.05; done"
"""As a run ends that is interrupted."""


def test_a_defect_is_not_hidden_nor_where_it_was_and_the_others_are_told_to_stop(tmp_path, broken, shell_children):
    shell_children(lambda folder, _: TOLD_TO_STOP if folder.name == "a" else None)
    with pytest.raises(RuntimeError, match=r"(?s)a run failed.*in fail.*ZeroDivisionError: a defect of ours"):
        carried_out([a_run(tmp_path / "a"), a_run(tmp_path / "broken")], jobs=2)
    assert (tmp_path / "a" / "stopped").exists()


def test_the_others_are_told_to_stop_when_a_result_cannot_be_kept(tmp_path, done, shell_children):
    """As where the disk is full."""
    ends = f"while [ ! -e {tmp_path}/a/listens ]; do sleep 0.02; done; cp -r {done}/. $0"
    shell_children(lambda folder, _: TOLD_TO_STOP if folder.name == "a" else ends)

    def refuse(result):
        raise MocaError("no room")

    runs = [("a", a_run(tmp_path / "a")), ("b", a_run(tmp_path / "b"))]
    with pytest.raises(MocaError, match="no room"):
        side_by_side(runs, 2, ProgressBar(1, shown=False), refuse)
    assert (tmp_path / "a" / "stopped").exists()


def test_ctrl_c_stops_the_runs_under_way_and_begins_no_other(tmp_path, shell_children):
    shell_children(lambda folder, number: f"touch {tmp_path}/{number}; {TOLD_TO_STOP}")
    runs = [a_run(tmp_path / name) for name in "abc"]
    thread = when(tmp_path / "1", partial(os.kill, os.getpid(), signal.SIGINT))
    assert carried_out(runs, jobs=2) == [None, None, None]
    thread.join()
    assert all((tmp_path / name / "stopped").exists() for name in "ab")
    assert not (tmp_path / "c").exists()


def test_a_second_ctrl_c_waits_for_nobody(tmp_path, shell_children):
    started = shell_children(lambda *_: "trap '' INT; touch $0/here; while true; do sleep 0.1; done")  # does not listen

    def twice():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.7)
        os.kill(os.getpid(), signal.SIGINT)

    thread = when(tmp_path / "a" / "here", twice)
    with pytest.raises(KeyboardInterrupt):
        carried_out([a_run(tmp_path / "a")], jobs=1)
    thread.join()
    assert started[0].wait(timeout=10) == -signal.SIGKILL


def test_a_run_that_nobody_reads_any_more_keeps_its_state_and_ends(tmp_path):
    """As when the comparison was killed."""
    folder = a_run(tmp_path / "a", epochs=100000)()
    command = [sys.executable, "-m", "moca", "resume", str(folder), "--progress", "lines"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "0\ttesting\n"
        assert child.stdout.readline().split("\t")[0] == "50"
        child.stdout.close()
        assert child.wait(timeout=60) == 130
        assert "Traceback" not in child.stderr.read()
    assert (folder / "checkpoint.pt").is_file()
