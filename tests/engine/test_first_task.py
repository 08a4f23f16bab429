"""Runs that begin alike: their first task is trained once, and none of them can be told from one that trained it."""

import json
from contextlib import contextmanager
from functools import cache

import pytest

import moca
from moca.engine import compare as comparing
from moca.engine.first_task import FirstTask, beginning
from moca.engine.folder import STEPS, TASKS
from moca.engine.plan import plan
from moca.engine.run import Running
from moca.engine.trainer import Trainer
from moca.settings import Run, validate
from tests.test_own_parts import Back

FAST = {
    "model": "convnet:width=2,features=4",
    "memory": 20,
    "tasks": 3,
    "batch": 200,
    "epochs": 1,
    "lr": 0.1,
    "device": "cpu",
    "threads": 1,
}
PERTURBS = ["none", "vt", "wap"]


@contextmanager
def counting():
    """The tasks of the steps that are done, whatever for."""
    done, original = [], Trainer.steps

    def counted(self):
        for step in original(self):
            done.append(self.schedule.task)
            yield step

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "steps", counted)
        yield done


@pytest.fixture
def steps():
    with counting() as done:
        yield done


@pytest.fixture(scope="module")
def apart():
    """Each run trains its first task by itself."""

    def apart(**settings):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(comparing, "beginning", lambda run: None)
            return moca.compare(**settings)

    return apart


def of_learner(learner):
    return FAST | {"learner": learner, "perturb": PERTURBS, "seeds": 2}


@pytest.fixture(scope="module")
def trained_apart(apart, tmp_path_factory):
    """The runs of a learner, each by itself, and the tasks of their steps; once."""

    @cache
    def train(learner):
        with counting() as steps:
            return apart(**of_learner(learner), out=tmp_path_factory.mktemp("apart") / "out"), tuple(steps)

    return train


def told(folder, name):
    """What the lines of a run say, but for the time."""
    lines = map(json.loads, (folder / name).read_text().splitlines())
    return [{key: value for key, value in line.items() if key != "seconds"} for line in lines]


@pytest.mark.parametrize(("learner", "at_a_time"), [("er", 1), ("er", 3), ("derpp", 3), ("teacher:of=mir", 2)])
def test_the_same_bits(learner, at_a_time, trained_apart, steps, tmp_path, monkeypatch):
    settings = of_learner(learner)
    expected, alone = trained_apart(learner)
    first, later = alone.count(0) // len(PERTURBS), len(alone) - alone.count(0)
    steps.clear()
    original = comparing.take_turns
    monkeypatch.setattr(comparing, "take_turns", lambda jobs, *_: original(jobs, at_a_time))
    shared = moca.compare(**settings, out=tmp_path / "shared")
    assert steps.count(0) == first, "once a seed"
    assert len(steps) == first + later
    for one, other in zip(shared.results, expected.results, strict=True):
        assert one.folder.name == other.folder.name
        assert one.accuracy_matrix == other.accuracy_matrix
        assert one.task_il_matrix == other.task_il_matrix
        assert one.steps == other.steps
        assert one.seconds > 0
        for name in (STEPS, TASKS):
            assert told(one.folder, name) == told(other.folder, name)
    notes = [note for result in shared.results for note in result.notes if "trained by" in note]
    assert len(notes) == 2 * (len(PERTURBS) - 1)


def test_nothing_is_adjusted_in_the_first_task(apart, steps, tmp_path):
    """Nor before it, nor in its middle."""
    learners = ["er", "er:adjust=1", "er:adjust=auto"]
    settings = FAST | {"learner": learners, "seeds": 1, "evaluate_every": 2, "batch": 120}
    expected = apart(**settings, out=tmp_path / "apart")
    alone = steps.count(0)
    steps.clear()
    shared = moca.compare(**settings, out=tmp_path / "shared")
    plain, adjusted, _ = shared.results
    assert [r.accuracy_matrix for r in shared.results] == [r.accuracy_matrix for r in expected.results]
    assert [r.over_stream for r in shared.results] == [r.over_stream for r in expected.results]
    assert plain.accuracy_matrix[1] == adjusted.accuracy_matrix[1]
    assert plain.accuracy_matrix[2] != adjusted.accuracy_matrix[2]
    assert [any("trained by 'er-s0'" in note for note in r.notes) for r in shared.results] == [False, True, False]
    assert alone - steps.count(0) == told(plain.folder, TASKS)[1]["steps"]


def test_runs_that_hold_out_the_same_samples_begin_alike_too(apart, tmp_path):
    settings = FAST | {"learner": "er:adjust=auto", "perturb": ["none", "vt"], "seeds": 2}
    expected = apart(**settings, out=tmp_path / "apart")
    shared = moca.compare(**settings, out=tmp_path / "shared")
    assert [r.accuracy_matrix for r in shared.results] == [r.accuracy_matrix for r in expected.results]
    assert sum("trained by" in note for r in shared.results for note in r.notes) == 2


def key(**settings):
    return beginning(validate(Run, settings))


def test_what_a_first_task_depends_on():
    assert key(perturb="vt") == key(perturb="wap:lambda=3") == key()
    assert key(perturb="vt") != key(perturb="vt", seed=1)
    assert key(perturb="vt") != key(perturb="vt", lr=0.5)
    assert key(perturb="vt") != key(perturb="vt", learner="derpp")
    assert key(learner="er:adjust=2") == key(learner="er", perturb="vt")
    assert key(learner="teacher:of=derpp,adjust=1") == key(learner="teacher:of=derpp")
    assert key(learner="er:adjust=auto") != key(learner="er"), "some samples are held out"
    official = {"bn_passes": "official", "model": "resnet18"}
    assert key(perturb="vt", **official) == key(perturb="wap", **official)
    assert key(perturb="vt", **official) != key(**official), "the official code passes its batches otherwise"
    assert key(perturb=Back()) is None, "what somebody else's part does in it is not known"


def test_one_that_stops_in_its_first_task_leaves_it_to_another(apart, tmp_path, monkeypatch):
    """The first run cannot be begun: the second trains the task for the third."""
    settings = FAST | {"perturb": ["none", "vt", "gaussian"], "seeds": 1}
    expected = apart(**settings, out=tmp_path / "apart")
    (tmp_path / "shared" / "er-s0").mkdir(parents=True)
    (tmp_path / "shared" / "er-s0" / "mine").touch()
    shared = moca.compare(**settings, out=tmp_path / "shared")
    assert [r.status for r in shared.results] == ["failed", "finished", "finished"]
    assert [r.accuracy_matrix for r in shared.results[1:]] == [r.accuracy_matrix for r in expected.results[1:]]
    assert any("'er+vt-s0'" in note for note in shared.results[2].notes)


def test_one_that_goes_on_trains_the_task_for_the_others(apart, steps, tmp_path, monkeypatch):
    settings = FAST | {"perturb": ["none", "vt"], "seeds": 1}
    expected, alone = apart(**settings, out=tmp_path / "apart"), len(steps)
    first = steps.count(0) // 2
    steps.clear()
    original = comparing.take_turns
    monkeypatch.setattr(comparing, "take_turns", lambda jobs, *_: _stopped(jobs))
    with pytest.raises(moca.errors.Interrupted):
        moca.compare(**settings, out=tmp_path / "shared")
    monkeypatch.setattr(comparing, "take_turns", original)
    shared = moca.compare(**settings, out=tmp_path / "shared")
    assert [r.accuracy_matrix for r in shared.results] == [r.accuracy_matrix for r in expected.results]
    assert len(steps) == alone - first


def _stopped(jobs, number=0):
    """One run after two steps, those before it at their end."""
    results = []
    for job in jobs[: number + 1]:
        run, interrupt = job.open(), type("Asked", (), {"requested": False})()
        for _ in run.steps(interrupt):
            interrupt.requested = len(results) == number
        results.append(run.result)
    return results + [None] * (len(jobs) - len(results))


def test_one_that_goes_on_in_its_first_task_takes_it_over(apart, tmp_path, monkeypatch):
    """What it had trained by itself is not counted twice, and stopped again it still says who trained the task."""
    settings, counted = FAST | {"perturb": ["none", "vt"], "seeds": 1}, []
    expected = apart(**settings, out=tmp_path / "apart")
    first = told(expected.results[0].folder, TASKS)[1]["steps"]
    monkeypatch.setattr(comparing.ProgressBar, "__call__", lambda self, steps, where: counted.append(steps))
    with monkeypatch.context() as patch:
        patch.setattr(comparing, "take_turns", lambda jobs, *_: _stopped(jobs, len(jobs) - 1))
        for perturbs in (["vt"], ["none", "vt"]):
            counted.clear()
            with pytest.raises(moca.errors.Interrupted):
                moca.compare(**settings | {"perturb": perturbs}, out=tmp_path / "shared")
    assert sum(counted) == expected.results[0].steps + first + 2
    shared = moca.compare(**settings, out=tmp_path / "shared")
    assert [r.accuracy_matrix for r in shared.results] == [r.accuracy_matrix for r in expected.results]
    assert any("'er-s0'" in note for note in shared.results[1].notes)


def test_it_is_kept_only_while_another_run_is_to_come(tmp_path, monkeypatch):
    """A state may be a hundred megabytes, and a comparison have hundreds of runs."""
    held = []
    for name in ("begin", "keep"):
        original = getattr(FirstTask, name)
        monkeypatch.setattr(
            FirstTask, name, lambda self, run, then=original: (then(self, run), held.append(bool(self.saved_state)))
        )
    moca.compare(**FAST, perturb=["none", "vt", "gaussian"], seeds=1, out=tmp_path / "three")
    assert held == [False, True, True, True, True, False, False], "two tasks of the first, and one of the others"
    held.clear()
    for what in ("mine", "settings.json"):
        folder = tmp_path / f"with {what}" / "er+vt-s0"
        folder.mkdir(parents=True)
        (folder / what).touch()
        moca.compare(**FAST, perturb=["none", "vt", "gaussian"], seeds=1, out=folder.parent)
        assert held == [False, True, True, False, False], "the second run cannot be opened, and is no longer to come"
        held.clear()
    moca.compare(**FAST, seeds=1, out=tmp_path / "one")
    assert not any(held)


def test_one_that_cannot_take_it_over_lets_go_of_its_folder(tmp_path, monkeypatch):
    """It is opened again when there is memory, by the same process."""
    monkeypatch.setattr(FirstTask, "begin", lambda self, run: 1 / 0)
    (p,) = plan(FAST, [0], tmp_path)
    with pytest.raises(ZeroDivisionError) as held:
        Running(p.settings, p.stream).start(p.folder)
    monkeypatch.undo()
    Running(p.settings, p.stream).resume(p.folder).give_up()
    del held


def test_watched_runs_are_told_about_every_step(tmp_path):
    class Counts(moca.Watcher):
        seen = 0

        def step(self, record):
            self.seen += 1

    watcher = Counts()
    made = moca.compare(**FAST, perturb=["none", "vt"], seeds=1, out=tmp_path, watch=watcher)
    assert watcher.seen == sum(r.steps for r in made.results)
