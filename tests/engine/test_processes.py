"""Runs in processes of their own: real processes, killed and interrupted for real."""

import os
import signal
import threading
import time
from functools import partial

import pytest
from moca.engine.processes import side_by_side

from moca import MocaError, Result
from moca.engine.progress import ProgressBar
from moca.engine.run import start
from moca.settings import Run, validate

SHORT = {"data": "digits", "memory": 40, "model": "mlp:width=16,depth=1,features=8", "device": "cpu", "threads": 1}


def carried_out(runs, jobs):
    return side_by_side([(f"run {i}", run) for i, run in enumerate(runs)], jobs, ProgressBar(1, shown=False))


def a_run(out, epochs=1):
    return partial(start, validate(Run, SHORT | {"epochs": epochs}), out)


def killed(once, advance):
    """Its process gets no chance to say anything, as when the system runs out of memory."""
    while not once.exists():
        time.sleep(0.02)
    os.kill(os.getpid(), signal.SIGKILL)


def counted(folder, advance):
    folder.joinpath(str(time.monotonic_ns())).write_text(str(threading.active_count()))
    raise MocaError("only counted")


def interrupted(out, advance):
    """Ctrl-C that reaches the comparison alone."""
    os.kill(os.getppid(), signal.SIGINT)
    return a_run(out, epochs=1000)(advance)


def test_a_killed_process_takes_its_run_with_it_and_nothing_else(tmp_path):
    """One run is under way beside it, others are still to come."""
    runs = [a_run(tmp_path / "beside", epochs=60), partial(killed, tmp_path / "beside" / "steps.jsonl")]
    runs += [a_run(tmp_path / f"later{i}") for i in range(3)]
    first, lost, *later = carried_out(runs, jobs=2)
    assert str(lost) == "its process was killed; the same comparison again goes on with it"
    assert [ending.status for ending in (first, *later)] == ["finished"] * 4


def test_a_killed_process_beside_an_idle_one(tmp_path):
    """The idle one must not wait for work for ever."""
    endings = carried_out([a_run(tmp_path / "a"), partial(killed, tmp_path / "a" / "result.json")], jobs=2)
    assert [type(ending) for ending in endings] == [Result, MocaError]


class Unsendable(Exception):
    """Pickled it would lack an argument."""

    def __init__(self, one, two):
        super().__init__(f"{one} {two}")


def broken(error, advance):
    raise error() if error is not Unsendable else error("a", "b")


@pytest.mark.parametrize("error", [ZeroDivisionError, FileNotFoundError, EOFError, Unsendable])
def test_a_defect_is_not_hidden_nor_where_it_was(error):
    with pytest.raises(RuntimeError, match=rf"(?s)a run failed.*in broken\n.*{error.__name__}"):
        carried_out([partial(broken, error)], jobs=1)


def breaks_beside(out, advance):
    while not (out / "steps.jsonl").exists():
        time.sleep(0.02)
    raise ZeroDivisionError("a defect of ours")


def test_a_defect_in_one_run_leaves_the_others_their_state(tmp_path):
    with pytest.raises(RuntimeError, match="ZeroDivisionError: a defect of ours"):
        carried_out([a_run(tmp_path / "a", epochs=1000), partial(breaks_beside, tmp_path / "a")], jobs=2)
    assert (tmp_path / "a" / "checkpoint.pt").is_file()


def impatient(out, advance):
    """Ctrl-C that comes by two ways, with one long operation between them."""

    def between_steps(steps, where):
        signal.raise_signal(signal.SIGINT)
        time.sleep(0.6)
        signal.raise_signal(signal.SIGINT)

    return start(validate(Run, SHORT | {"epochs": 1000}), out, between_steps)


def test_one_ctrl_c_that_comes_twice_loses_nothing(tmp_path):
    (ending,) = carried_out([partial(impatient, tmp_path / "a")], jobs=1)
    assert isinstance(ending, Result)
    assert ending.status == "interrupted"


def never_ends(second, advance):
    os.kill(os.getppid(), signal.SIGINT)
    time.sleep(0.7)
    second.write_text(str(time.time()))
    os.kill(os.getppid(), signal.SIGINT)
    time.sleep(60)


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="needs POSIX signals")
def test_a_second_ctrl_c_waits_for_nobody(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        carried_out([partial(never_ends, tmp_path / "second")], jobs=1)
    assert time.time() - float((tmp_path / "second").read_text()) < 8


def test_a_process_keeps_nothing_of_the_runs_before(tmp_path):
    endings = carried_out([partial(counted, tmp_path)] * 5, jobs=1)
    assert [str(ending) for ending in endings] == ["only counted"] * 5
    threads = [path.read_text() for path in sorted(tmp_path.iterdir())]
    assert len(threads) == 5
    assert len(set(threads)) == 1


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="needs POSIX signals")
def test_ctrl_c_stops_the_runs_under_way_and_begins_no_other(tmp_path):
    runs = [partial(interrupted, tmp_path / "a"), a_run(tmp_path / "b", epochs=1000), a_run(tmp_path / "c")]
    first, second, third = carried_out(runs, jobs=2)
    assert first is not None
    assert first.status == "interrupted"
    assert second is None or second.status == "interrupted"
    assert third is None
