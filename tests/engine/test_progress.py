"""The progress bar: a long name is cut before the numbers are; after each task it says how well the tasks are known."""

from types import SimpleNamespace

import pytest

from moca.engine.progress import ProgressBar, _Rate
from tests.engine.helpers import begin, finish
from tests.engine.test_run import FAST, interrupt_when


@pytest.mark.parametrize("name", ["er", "derpp:" + ",".join(f"option{i}={i}" for i in range(20))])
def test_the_numbers_are_whole_however_long_the_name(monkeypatch, capsys, name):
    monkeypatch.setenv("COLUMNS", "80")
    with ProgressBar(12345, name) as bar:
        bar(6789, "task 2/5, acc 91.5 %")
    last = capsys.readouterr().err.splitlines()[-1]
    assert "task 2/5, acc 91.5 % " in last and " 6789/12345 " in last and len(last) <= 80
    assert last.startswith("er task" if name == "er" else name[:15])
    assert ("…" in last) == (name != "er")


@pytest.mark.parametrize("learner", ["er", "joint"])
def test_the_accuracy_so_far_is_told_after_each_task(tmp_path, learner):
    told = []
    result = finish(begin(FAST | {"tasks": 3, "learner": learner}, tmp_path / "a", lambda _, where: told.append(where)))
    if learner == "joint":
        assert set(told) == {"testing", "task 1/1"}
        return
    first, second = result.accuracy_matrix[1][:1], result.accuracy_matrix[2][:2]
    weigh = result.task_classes
    so_far = [first[0], sum(a * n for a, n in zip(second, weigh, strict=False)) / sum(weigh[:2])]
    assert [where for where in dict.fromkeys(told) if where != "testing"] == [
        "task 1/3", *(f"task {n}/3, acc {100 * mean:.1f} %" for n, mean in zip((2, 3), so_far, strict=True)),
    ]  # fmt: skip


def test_a_run_that_goes_on_knows_its_accuracy(tmp_path):
    import moca

    half = finish(begin(FAST | {"tasks": 2, "epochs": 3}, tmp_path / "a", interrupt_when(100)))
    assert len(half.accuracy_matrix) == 2, "in the second task"
    told = []
    moca.resume(tmp_path / "a", progress=lambda _, where: told.append(where))
    assert f"task 2/2, acc {100 * half.accuracy_matrix[1][0]:.1f} %" in told[:2]


def test_what_was_done_before_has_no_speed():
    with ProgressBar(1000, shown=False) as bar:
        bar(10, "run 1/3 er done before")
        bar(700, "run 2/3 er done before")
        bar(80, "run 3/3 er resumed")
        (task,) = bar.progress.tasks
        assert (task.completed, task.speed) == (790, None)
        for _ in range(3):
            bar(1, "run 3/3 er task 2/2")
        assert task.completed == 793 and task.speed is not None


@pytest.mark.parametrize(
    ("speed", "shown"), [(0.0412, "0.041/s"), (0.66, "0.66/s"), (9.94, "9.9/s"), (560.2, "560/s"), (None, "")]
)
def test_a_slow_rate_is_told_with_decimals(speed, shown):
    assert str(_Rate().render(SimpleNamespace(speed=speed))) == shown


def test_a_log_says_once_that_other_processes_are_waited_for(capsys):
    with ProgressBar(10) as bar:
        for runs in (2, 2, 2, 1, 1):
            bar.elsewhere(runs)
    told = capsys.readouterr().err.splitlines()
    assert told[:2] == ["waiting for 2 runs of other processes", "waiting for 1 run of other processes"]
