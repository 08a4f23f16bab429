"""What trackers share: what they are told and when, and that whatever they do a run is the run that it would be."""

import json
import math
import sys
import warnings
from pathlib import Path

import pytest

import moca
from moca import MocaError
from moca.engine import compare as comparing
from moca.engine import tracked, tracking
from moca.engine.folder import RunFolder
from moca.engine.plan import plan
from moca.engine.tracked import Tracked
from moca.engine.watch import StepRecord
from moca.errors import MocaWarning
from moca.parts import TRACKERS
from moca.settings import flat, word
from moca.trackers import Tracker
from tests.engine.helpers import begin, finish
from tests.engine.test_run import FAST, assert_same_run, interrupt_when, lines

SHORT = FAST | {"tasks": 2, "perturb": "gaussian:lambda=1"}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(TRACKERS, "registered", {})


class Notebook(Tracker):
    """Writes down what it is told, of every run that there was."""

    all = []
    fails: str = moca.option("", "the verb that fails the first time, or always")

    def open(self, about, run):
        self.told = {"about": about, "known": run, "points": [], "calls": 0}
        self.all.append(self.told)
        self._fail("open")
        return run or f"run {len(self.all)}"

    def log(self, points):
        self._fail("log")
        self.told["calls"] += 1
        self.told["points"] += points

    def close(self, status, last):
        self._fail("close")
        self.told |= {"status": status, "last": last}

    def _fail(self, verb):
        if self.fails in (verb, "always"):
            self.fails = self.fails.replace(verb, "")
            raise ConnectionError("the line is dead\nand more")


@pytest.fixture
def told(monkeypatch):
    monkeypatch.setattr(Notebook, "all", [])
    return Notebook.all


def tracked_by(tracker):
    return Tracked(tracking.as_choice(tracker))


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return moca.run(**SHORT, out=tmp_path_factory.mktemp("plain") / "run", keep_model=False)


def test_what_is_told(told, tmp_path, plain):
    result = moca.run(**SHORT, out="one", keep_model=False, track=Notebook(every=20))
    (notes,) = told
    assert_same_run(plain.folder, result.folder)
    assert notes["about"].folder == tmp_path / "one" and notes["about"].name == "one"
    settings = flat(json.loads((tmp_path / "one" / "settings.json").read_text()))
    assert {name: word(value) for name, value in notes["about"].settings.items()} == {
        name: word(value) for name, value in settings.items()
    }
    assert notes["about"].settings["perturb.lambda"] == 1.0
    losses = [point for point in notes["points"] if "lr" in point.numbers]
    done = lines(tmp_path / "one" / "steps.jsonl")
    first = sum(record["task"] == 0 for record in done)
    ends = [*range(20, first, 20), first, *range(first + 20, len(done), 20), len(done)]
    assert [point.step for point in losses] == ends, "groups of 20, and what is left at the end of a task"
    for begun, point in zip([0, *ends], losses, strict=False):
        group = done[begun : point.step]
        for name in ("new", "replay"):
            there = [record[f"loss_{name}"] for record in group if f"loss_{name}" in record]
            assert point.numbers[f"loss/{name}"] == pytest.approx(sum(there) / len(there))
        assert point.numbers["loss/total"] == pytest.approx(sum(record["loss"] for record in group) / len(group))
        assert point.numbers["lr"] == group[-1]["lr"]


def test_accuracies_come_after_each_task_and_numbers_at_the_end(told):
    result = moca.run(**SHORT, out="one", keep_model=False, track=Notebook)
    (notes,) = told
    tests = [point.numbers for point in notes["points"] if "lr" not in point.numbers]
    first, last = result.accuracy_matrix[1:]
    (alone,), both = result.task_il_matrix[1][:1], result.task_il_matrix[2]
    assert tests == [
        {"class_il/mean": first[0], "class_il/task_1": first[0], "task_il/task_1": alone},
        {"class_il/mean": pytest.approx(sum(last) / 2), "class_il/task_1": last[0], "class_il/task_2": last[1],
         "task_il/task_1": both[0], "task_il/task_2": both[1]},
    ]  # fmt: skip
    assert notes["status"] == "finished" and notes["last"].step == result.steps
    assert notes["last"].numbers == {f"result/{name}": value for name, value in result.numbers().items()}


def test_joint_training_has_learned_all_tasks_at_once(told):
    result = moca.run(**SHORT | {"learner": "joint", "perturb": "none"}, out="one", keep_model=False, track=Notebook)
    tests = [point.numbers for point in told[0]["points"] if "lr" not in point.numbers]
    assert [(set(numbers), numbers["class_il/mean"]) for numbers in tests] == [
        ({"class_il/mean", *(f"{kind}_il/task_{n}" for kind in ("class", "task") for n in (1, 2))},
         pytest.approx(result.final_accuracy))
    ]  # fmt: skip
    assert all(math.isfinite(value) for value in told[0]["last"].numbers.values()), "it has no forgetting"


def test_points_come_in_groups(told):
    result = moca.run(**SHORT | {"epochs": 3}, out="one", keep_model=False, track=Notebook(every=1))
    points = told[0]["points"]
    assert len(points) > result.steps
    assert told[0]["calls"] <= result.steps / 50 + 2 * 2, "not one call a step"


@pytest.mark.parametrize("fails", ["open", "log", "close", "always"])
def test_one_that_fails_costs_nothing_but_a_warning(told, plain, fails, monkeypatch):
    monkeypatch.setattr(tracked, "_INTERVAL", 0)
    said = r"run 'one' continues, but tracker '.*Notebook' failed \(ConnectionError: the line is dead\)"
    with pytest.warns(MocaWarning, match=said) as warned:
        result = moca.run(**SHORT, out="one", keep_model=False, track=Notebook(fails=fails))
    assert len(warned) == 1
    assert_same_run(plain.folder, result.folder)
    assert ("status" in told[-1]) == (fails in ("open", "log")), "at the end it is tried again"
    if fails != "always":
        steps = [point.step for point in told[-1]["points"]]
        assert steps[-1] == result.steps and sorted(steps) == steps, "and what was kept is passed on"
        assert {"class_il/task_1", "loss/new"} <= {name for point in told[-1]["points"] for name in point.numbers}


class Untidy(Notebook):
    """Keeps what it likes under any name."""

    def open(self, about, run):
        for name in ("folder", "about", "points", "records", "opened", "warned", "pause", "not_before", "width",
                     "wants", "begin", "due", "steps", "step", "task", "end", "tracker", "choice"):  # fmt: skip
            setattr(self, name, about.folder)
        return super().open(about, run)


def test_a_tracker_may_give_its_attributes_any_name(told, plain):
    with warnings.catch_warnings():
        warnings.simplefilter("error", MocaWarning)
        result = moca.run(**SHORT, out="one", keep_model=False, track=[Notebook(every=10), Untidy(every=10)])
    tidy, untidy = told
    assert untidy["points"] == tidy["points"] and untidy["last"] == tidy["last"]
    assert untidy["status"] == "finished"
    assert_same_run(plain.folder, result.folder)


@pytest.mark.parametrize("watch", [Notebook, Notebook()])
def test_a_tracker_is_not_a_watcher(watch):
    for many in (moca.run, moca.compare):
        with pytest.raises(MocaError, match=r"^'Notebook' is a tracker; pass it as track=, not as watch=$"):
            many(**SHORT, out="one", watch=watch)


def test_a_tracker_without_a_method_is_refused_before_training():
    class Half(moca.Tracker):
        def log(self, points):
            pass

    with pytest.raises(MocaError, match=r"^'Half' has no method open, which a tracker needs$"):
        moca.run(**SHORT, out="one", track=Half())
    assert not Path("one").exists()


class Shelved(Notebook):
    """Has a folder."""

    at: str = moca.option("", "where")

    def check(self):
        self.at = str(Path(self.at).resolve())


def test_a_path_is_kept_in_full(told, tmp_path):
    """So that a run resumed from another folder finds it."""
    moca.register(Shelved, name="shelved")
    finish(begin(SHORT, tmp_path / "half", interrupt_when(1), watchers=[Tracked(tracking.as_choice("shelved:at=a"))]))
    assert RunFolder(tmp_path / "half").read_json("tracking.json")["shelved"]["tracker"]["at"] == str(tmp_path / "a")


def test_a_warning_tells_no_password(told, monkeypatch):
    """MLflow's errors begin with the whole address, also where it came from its variable."""
    error = OSError("API request to http://me:hunter22@127.0.0.1:9/api failed, as to http://token@host")
    monkeypatch.setattr(Notebook, "open", lambda self, about, run: (_ for _ in ()).throw(error))
    run = begin(SHORT, Path("one"), watchers=[tracker := tracked_by(Notebook())])
    with pytest.warns(MocaWarning, match=r"API request to http://127.0.0.1:9/api failed, as to http://host\)$"):
        tracker.begin(run)
    run.folder.release()


def test_one_that_failed_is_left_alone_for_a_while(told, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(tracked.time, "monotonic", lambda: clock[0])
    tries = []
    monkeypatch.setattr(Notebook, "log", lambda self, points: tries.append(clock[0]) or 1 / 0)
    run = begin(SHORT, Path("one"), watchers=[tracker := tracked_by(Notebook(every=1))])
    tracker.begin(run)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for clock[0] in range(0, 1000, 10):
            tracker.steps([StepRecord(1, 0, 0, 0.1, {"new": 1.0})])
    run.folder.release()
    assert tries == [10, 70, 190, 430, 910], "the minutes between two become twice as many each time"


def test_a_fast_run_calls_once_a_second_at_most(told, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(tracked.time, "monotonic", lambda: clock[0])
    run = begin(SHORT, Path("one"), watchers=[tracker := tracked_by(Notebook(every=1))])
    tracker.begin(run)
    for number in range(100):
        clock[0] = 0.1 * number
        tracker.steps([StepRecord(number, 0, 0, 0.1, {"new": 1.0})])
    run.folder.release()
    assert 8 <= told[0]["calls"] <= 10
    assert [point.step for point in told[0]["points"]] == list(range(len(told[0]["points"])))


def test_a_resumed_run_goes_on_in_the_same_one(told, plain, tmp_path):
    half = finish(begin(SHORT, tmp_path / "half", interrupt_when(1), watchers=[tracked_by(Notebook())]))
    assert half.status == "interrupted" and told[0]["status"] == "interrupted"
    moca.resume("half", keep_model=False)
    first, second = told
    assert second["known"] == "run 1" and second["about"].steps == half.steps
    assert second["status"] == "finished"
    assert_same_run(plain.folder, tmp_path / "half")
    with_loss = [point.step for point in first["points"] + second["points"] if "lr" in point.numbers]
    assert len(set(with_loss)) == len(with_loss) and with_loss[-1] == plain.steps


def test_a_tracker_can_be_added_when_a_run_goes_on(told, tmp_path):
    finish(begin(SHORT, tmp_path / "half", interrupt_when(1)))
    assert not (tmp_path / "half" / "tracking.json").exists() and not told
    moca.resume("half", keep_model=False, track=[Notebook(every=7)])
    assert [notes["known"] for notes in told] == [None]
    kept = json.loads((tmp_path / "half" / "tracking.json").read_text())
    assert [(entry["tracker"]["every"], entry["run"]) for entry in kept.values()] == [(7, "run 1")]


def test_a_tracker_that_is_not_known_any_more(told, tmp_path):
    moca.register(Notebook, name="notebook")
    finish(begin(SHORT, tmp_path / "half", interrupt_when(1), watchers=[tracked_by(Notebook())]))
    TRACKERS.registered.clear()
    with pytest.raises(MocaError, match=r"tracking.json: unknown tracker 'notebook'; .*; remove it to resume without"):
        moca.resume("half")
    (tmp_path / "half" / "tracking.json").unlink()
    assert moca.resume("half", keep_model=False).status == "finished"


def test_one_of_this_process_alone_keeps_runs_in_it(told):
    moca.register(Notebook, name="notebook")
    moca.compare(**SHORT | {"perturb": ["none", "vt"]}, jobs=2, out="c", track="notebook")
    assert [notes["status"] for notes in told] == ["finished"] * 2


def test_every_run_of_a_comparison_has_its_own(told):
    moca.compare(**SHORT | {"perturb": ["none", "vt"]}, seeds=2, out="c", track=Notebook)
    assert [notes["about"].name for notes in told] == ["er-s0", "er-s1", "er+vt-s0", "er+vt-s1"]
    assert all(notes["status"] == "finished" for notes in told)
    assert all(any(point.step <= 50 for point in notes["points"]) for notes in told), "also the first task of each"


def test_runs_in_processes_of_their_own_know_their_trackers(told, tmp_path):
    """What a child finds in its folder is what `resume` goes by."""
    (p,) = plan(SHORT, [0], tmp_path / "c")
    folder = comparing._given_folder(p, tracking.chosen(Notebook(every=9)))
    assert moca.resume(folder, keep_model=False).status == "finished"
    assert [notes["status"] for notes in told] == ["finished"]
    assert RunFolder(folder).read_json("tracking.json").popitem()[1]["run"] == "run 1"


def test_none_is_there_unasked(told, plain):
    assert not told
    assert not (plain.folder / "tracking.json").exists()


def test_names(told):
    moca.register(Notebook, name="notebook")
    moca.run(**SHORT | {"epochs": 1}, out="one", keep_model=False, track="notebook:every=30")
    assert told[0]["status"] == "finished"
    with pytest.raises(MocaError, match="unknown tracker 'notbook'; did you mean 'notebook'"):
        moca.run(**SHORT, track="notbook")
    with pytest.raises(MocaError, match="unknown option 'evry' of 'notebook'; did you mean 'every'"):
        moca.run(**SHORT, track="notebook:evry=3")
    with pytest.raises(MocaError, match="a run has one tracker 'notebook'; give it once"):
        moca.run(**SHORT, track=["notebook", "notebook:every=3"])
    with pytest.raises(MocaError, match=r"'moca.learners.er.ER' is no tracker; it must be derived from moca.Tracker"):
        moca.run(**SHORT, track="moca.learners.er.ER")


@pytest.mark.parametrize("name", TRACKERS.built_in)
def test_one_that_is_not_installed_says_what_to_install(name, monkeypatch, tmp_path):
    for module in list(sys.modules):
        if module.partition(".")[0] == name or module.startswith("torch.utils.tensorboard"):
            monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MocaError, match=rf"track={name} needs the extra {name}: pip install 'moca-cl\[{name}\]'"):
        moca.run(**SHORT, out="one", track=name)
    assert not (tmp_path / "one").exists()
