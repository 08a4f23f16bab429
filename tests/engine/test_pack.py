"""Runs that take turns: each is the run that it would be alone, whatever happens to its neighbours."""

import csv
import gc
import json
import re
import signal
import weakref
from contextlib import contextmanager, nullcontext
from dataclasses import replace

import pytest
import torch

import moca
from moca import MocaError, Result
from moca.engine import compare as comparing
from moca.engine import pack
from moca.engine import run as running
from moca.engine.cost import Cost
from moca.engine.first_task import FirstTask
from moca.engine.folder import RunFolder
from moca.engine.learning import Learning
from moca.engine.material import Material
from moca.engine.pack import Job, take_turns
from moca.engine.plan import Plan
from moca.engine.run import Running
from moca.engine.step_reports import StepReports
from moca.engine.trainer import Trainer
from moca.errors import Held, Interrupted, out_of_memory
from moca.settings import Run, validate
from tests.engine.helpers import finish
from tests.engine.test_reproducible import assert_identical

CPU = torch.device("cpu")
FAST = {
    "model": "mlp:width=8,depth=1,features=4",
    "memory": 20,
    "tasks": 3,
    "batch": 90,
    "epochs": 1,
    "lr": 0.1,
    "device": "cpu",
    "threads": 1,
}
MIXED = {
    "er": {},
    "vt": {"perturb": "vt", "seed": 3, "lr": 0.3},
    "wap": {"learner": "derpp", "perturb": "wap", "optimiser": "sgd:momentum=0.5", "batch": 70},
    "ace": {"learner": "er_ace", "perturb": "gaussian", "epochs": 2},
    "doa": {"perturb": "doa_old", "model": "convnet:width=2,features=4", "bn_passes": "official", "batch": 180},
    "bf16": {"perturb": "vmf:kappa=20", "model": "convnet:width=2,features=4", "precision": "bf16", "batch": 100},
    "finetune": {"learner": "finetune", "batch": 60},
}


def plan_of(folder, name, **settings):
    return Plan(name, *Material()(validate(Run, FAST | settings)), folder / name)


class Told:
    """A progress bar that only remembers."""

    def __init__(self):
        self.counts = [0]

    def __call__(self, steps, where):
        self.counts.append(self.counts[-1] + steps)


def jobs_of(plans, bar=None):
    return [comparing._job(p, p.label, bar or Told(), (), FirstTask(), lambda result: None) for p in plans]


def lines(path, *without):
    return [{k: v for k, v in json.loads(line).items() if k not in without} for line in path.read_text().splitlines()]


def assert_same(result, other):
    """Equal but for the clock, the folder and who else was there."""
    assert (result.status, result.settings, result.steps) == (other.status, other.settings, other.steps)
    assert result.accuracy_matrix == other.accuracy_matrix
    assert result.task_il_matrix == other.task_il_matrix
    assert lines(result.folder / "steps.jsonl") == lines(other.folder / "steps.jsonl")
    assert lines(result.folder / "tasks.jsonl", "seconds") == lines(other.folder / "tasks.jsonl", "seconds")
    assert sorted(p.name for p in result.folder.iterdir()) == sorted(p.name for p in other.folder.iterdir())


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Each of the mixed runs by itself: its result, and the state it ended with."""
    folder, done = tmp_path_factory.mktemp("alone"), {}
    for name, settings in MIXED.items():
        p = plan_of(folder, name, **settings)
        run = Running(p.settings, p.stream).start(p.folder)
        done[name] = finish(run), run.trainer.state_dict()
    return done


@pytest.mark.parametrize("at_a_time", [2, 7])
def test_packed_runs_are_those_that_they_would_be_alone(tmp_path, alone, at_a_time):
    plans, trainers = [plan_of(tmp_path, name, **settings) for name, settings in MIXED.items()], {}

    def kept(name, job):
        def open():
            run = job.open()
            trainers[name] = run.trainer
            return run

        return Job(open, CPU)

    endings = take_turns([kept(p.label, e) for p, e in zip(plans, jobs_of(plans), strict=True)], at_a_time)
    for p, result in zip(plans, endings, strict=True):
        expected, state = alone[p.label]
        assert_same(result, expected)
        assert_identical(trainers[p.label].state_dict(), state)
        assert Result.load(p.folder) == result
        assert result.environment["packed"] == at_a_time
        assert result.environment["threads"] == 1


@pytest.fixture
def cramped(monkeypatch):
    """A device whose memory holds `capacity` trainers: with more of them, somebody finds none `at` some point."""

    def cramp(capacity, at, too_large=lambda settings: False):
        trainers, most, failed = weakref.WeakSet(), [], []

        def ask(settings):
            if len(trainers) > capacity or too_large(settings):
                failed.append(len(trainers))
                raise torch.OutOfMemoryError("CUDA out of memory")

        class Cramped(Trainer):
            def __init__(self, settings, stream, outputs):
                super().__init__(settings, stream, outputs)
                trainers.add(self)
                if at == "opening":
                    ask(settings)
                most.append(len(trainers))

                schedule, step = self.schedule, self.learning.step

                def cramped_step(raw, y):
                    if at == schedule.steps_done:
                        ask(settings)
                    return step(raw, y)

                self.learning.step = cramped_step

        class CrampedFolder(RunFolder):
            def save_checkpoint(self, state):
                if at == "checkpoint":
                    ask(self.settings())
                super().save_checkpoint(state)

        def evaluate(model, predict, stream, stop, original=running.evaluate):
            if at == "evaluation" and len(trainers) > capacity:
                ask(None)
            return original(model, predict, stream, stop)

        monkeypatch.setattr(running, "Trainer", Cramped)
        monkeypatch.setattr(running, "RunFolder", CrampedFolder)
        monkeypatch.setattr(running, "evaluate", evaluate)
        return most, failed

    return cramp


NAMES = ["er", "vt", "ace", "finetune", "doa"]


@pytest.mark.parametrize("at", ["opening", 0, 4, 6, "evaluation", "checkpoint"])
def test_without_memory_a_run_waits_for_another_and_none_is_lost(tmp_path, alone, cramped, at):
    plans, bar = [plan_of(tmp_path, name, **MIXED[name]) for name in NAMES], Told()
    most, failed = cramped(2, at)
    endings = take_turns(jobs_of(plans, bar), 4)
    assert failed, "it was tight"
    for p, result in zip(plans, endings, strict=True):
        assert_same(result, alone[p.label][0])
    assert max(failed) <= 4
    assert most[-1] <= 2, "in the end there are no more at a time than fit"
    total = sum(p.steps for p in plans)
    assert bar.counts[-1] == total
    assert max(bar.counts) <= total
    assert min(bar.counts) >= 0


def test_all_images_of_a_run_that_waited_count_once(tmp_path, alone, cramped):
    plans = [plan_of(tmp_path, name, **MIXED[name]) for name in NAMES]
    cramped(1, 6)
    for result, p in zip(take_turns(jobs_of(plans), 3), plans, strict=True):
        assert result.images_this_time == alone[p.label][0].images_this_time


@pytest.mark.parametrize("at", ["opening", 0, 6])
def test_a_run_that_never_fits_says_so_after_the_others_are_done(tmp_path, alone, cramped, monkeypatch, at):
    plans = [plan_of(tmp_path, name, **MIXED[name]) for name in ("er", "wap", "vt")]
    with monkeypatch.context():
        cramped(9, at, too_large=lambda settings: settings.learner.name == "derpp")
        first, error, last = take_turns(jobs_of(plans), 3)
    assert_same(first, alone["er"][0])
    assert_same(last, alone["vt"][0])
    assert str(error).startswith("there is not enough memory for even one run; use a smaller batch")
    assert error.__traceback__ is None
    monkeypatch.setattr(running, "Trainer", Trainer)
    assert_same(take_turns(jobs_of(plans[1:2]), 1)[0], alone["wap"][0])


def test_other_errors_are_not_taken_for_a_lack_of_memory(tmp_path, monkeypatch):
    def broken(self, raw, y):
        raise RuntimeError("a size does not match")

    plans = [plan_of(tmp_path, name, **MIXED[name]) for name in ("er", "vt")]
    monkeypatch.setattr(Learning, "step", broken)
    with pytest.raises(RuntimeError, match="does not match") as kept:
        take_turns(jobs_of(plans), 2)
    for p in plans:
        RunFolder(p.folder).claim()
    assert kept.value.__traceback__ is not None, "what holds on to the folders is still there"


def test_a_defect_in_one_run_costs_the_others_nothing(tmp_path, alone, monkeypatch):
    step, done = Learning.step, []

    def breaks(self, raw, y):
        if self.settings.learner.name == "derpp":
            done.append(1)
            if len(done) == 4:
                raise ZeroDivisionError("a defect of ours")
        return step(self, raw, y)

    plans = [plan_of(tmp_path, name, **MIXED[name]) for name in ("er", "wap", "vt")]
    with monkeypatch.context() as defective:
        defective.setattr(Learning, "step", breaks)
        with pytest.raises(ZeroDivisionError):
            take_turns(jobs_of(plans), 3)
    assert [(p.folder / "checkpoint.pt").is_file() for p in plans] == [True, False, True]
    for result, name in zip(take_turns(jobs_of(plans), 3), ("er", "wap", "vt"), strict=True):
        assert_same(result, alone[name][0])


class Fails(moca.Learner):
    """In the second task."""

    def losses(self, new, *replays):
        if not self.first_task:
            raise ValueError("a defect of the user's")
        return {"new": new.logits.square().mean()}


def test_code_of_the_users_own_that_fails_costs_its_own_run_only(tmp_path, alone):
    plans = [plan_of(tmp_path, name, **MIXED.get(name, {"learner": Fails})) for name in ("er", "own", "vt")]
    first, failed, last = take_turns(jobs_of(plans), 3)
    assert_same(first, alone["er"][0])
    assert_same(last, alone["vt"][0])
    assert re.match(r"ValueError: a defect of the user's \(.*test_pack.py:\d+, in losses\); ", str(failed))
    assert failed.__traceback__ is failed.__context__ is None, "they hold on to the memory of the run"
    RunFolder(plans[1].folder).claim()


@pytest.mark.parametrize(
    "words", ["CUDA error: out of memory", "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"]
)
def test_libraries_below_torch_run_out_of_memory_too(words):
    assert out_of_memory(RuntimeError(words))
    assert not out_of_memory(RuntimeError("CUDA error: an illegal memory access was encountered"))


def test_an_error_that_hides_a_lack_of_memory():
    try:
        try:
            raise torch.OutOfMemoryError("CUDA out of memory")
        finally:
            raise RuntimeError("the recording was invalidated")
    except RuntimeError as error:
        assert out_of_memory(error)


def test_a_run_that_diverges_leaves_its_neighbours_alone(tmp_path, alone):
    plans = [
        plan_of(tmp_path, "er", **MIXED["er"]),
        plan_of(tmp_path, "broken", head="linear", lr=1e30),
        plan_of(tmp_path, "vt", **MIXED["vt"]),
    ]
    first, broken, last = take_turns(jobs_of(plans), 3)
    assert broken.status == "diverged"
    assert_same(first, alone["er"][0])
    assert_same(last, alone["vt"][0])


def test_a_run_that_cannot_be_opened_leaves_its_neighbours_alone(tmp_path, alone):
    plans = [plan_of(tmp_path, name, **MIXED[name]) for name in ("er", "vt", "ace", "finetune")]
    plans[1].folder.mkdir()
    (plans[1].folder / "thesis.tex").write_text("years of work")
    RunFolder.create(plans[2].folder, plans[2].settings)
    holder = RunFolder(plans[2].folder)
    holder.claim()
    jobs = [replace(job, held=None) for job in jobs_of(plans)]  # as of a run by itself
    first, used, locked, last = take_turns(jobs, 2)
    assert "already used" in str(used)
    assert "being written by another process" in str(locked)
    assert used.__traceback__ is None
    assert_same(first, alone["er"][0])
    assert_same(last, alone["finetune"][0])
    holder.release()
    assert_same(take_turns(jobs_of(plans[2:3]), 1)[0], alone["ace"][0])


@pytest.mark.parametrize("working", ["er", "vt", "wap"])
def test_ctrl_c_keeps_every_run_under_way(tmp_path, alone, working):
    names = ["er", "vt", "wap", "ace", "finetune"]
    plans = [plan_of(tmp_path, name, **MIXED[name]) for name in names]

    class Impatient(Told):
        def __call__(self, steps, where):
            super().__call__(steps, where)
            if where == f"{working} task 1/3":
                signal.raise_signal(signal.SIGINT)

    half = take_turns(jobs_of(plans, Impatient()), 3)
    assert [e.status for e in half[:3]] == ["interrupted"] * 3
    assert half[3:] == [None, None]
    assert all((p.folder / "checkpoint.pt").is_file() for p in plans[:3])
    assert not plans[3].folder.exists()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    on = take_turns(jobs_of(plans), 3)
    for name, before, result in zip(names, half, on, strict=True):
        assert_same(result, alone[name][0])
        images = before.images_this_time if before else 0
        assert images + result.images_this_time == alone[name][0].images_this_time


def test_everything_that_a_run_does_is_on_its_own_stream(tmp_path, monkeypatch):
    made, current, seen = [], [None], {}

    def on_stream(device):
        made.append(device)
        number = len(made)

        @contextmanager
        def entered():
            assert current == [None], "one at a time"
            current[0] = number
            try:
                yield
            finally:
                current[0] = None

        return entered

    def watched(owner, name, who):
        original = getattr(owner, name)

        def call(*args):
            seen.setdefault(who(*args), []).append((name, current[0]))
            return original(*args)

        monkeypatch.setattr(owner, name, call)

    monkeypatch.setattr(pack, "on_stream", on_stream)
    watched(running, "Trainer", lambda settings, stream, outputs: settings.seed.seed)
    watched(Learning, "step", lambda learning, raw, y: learning.settings.seed.seed)
    watched(Running, "_evaluate", lambda run, interrupt: run.trainer.settings.seed.seed)
    watched(StepReports, "flush", lambda reports: reports.watchers[0].folder.settings().seed.seed)
    watched(RunFolder, "save_checkpoint", lambda folder, state: folder.settings().seed.seed)
    endings = take_turns(jobs_of([plan_of(tmp_path, f"s{seed}", seed=seed) for seed in range(5)]), 2)
    assert all(e.status == "finished" for e in endings)
    assert len(made) == 2, "the next run takes the stream of the one that ended"
    for work in seen.values():
        assert {name for name, _ in work} == {"Trainer", "step", "_evaluate", "flush", "save_checkpoint"}
        assert len({stream for _, stream in work}) == 1
        assert work[0][1] is not None
    assert {seen[0][0][1], seen[1][0][1]} == {1, 2}


def test_on_a_gpu_each_run_has_a_stream(monkeypatch):
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: ("stream of", device))
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext(stream))
    first = pack.on_stream(torch.device("cuda:1"))
    for _ in range(2):
        with first() as stream:
            assert stream == ("stream of", torch.device("cuda:1"))


def test_the_cost_in_words():
    assert str(Cost(8, 412.3, 74_160_000, 8, 8)) == "8 runs in 412 s, packed by 8: 179,869 images/s in total"
    assert str(Cost(4, 20.0, 2000, 1, 2)) == "4 runs in 20 s, 2 at a time: 100 images/s in total"
    assert str(Cost(1, 2.04, 100, 1, 1)) == "1 run in 2.0 s: 49 images/s in total"


def test_cores_that_were_idle_for_long_are_told_of():
    assert Cost(6, 90.0, 2000, 1, 1, cores=8).advice == "One after the other; jobs=6 carries out 6 at a time"
    assert Cost(60, 90.0, 2000, 1, 1, cores=8).advice == "One after the other; jobs=8 carries out 8 at a time"
    for fast in (Cost(6, 9.0, 2000, 1, 1, 8), Cost(1, 90.0, 2000, 1, 1, 8), Cost(6, 90.0, 2000, 1, 2, 8)):
        assert not fast.advice


@pytest.mark.parametrize(("here", "cores"), [({}, 8), ({"watch": moca.Watcher}, 1), ({"model": torch.nn.Flatten()}, 1)])
def test_runs_that_stay_in_this_process_have_no_cores_to_share(tmp_path, monkeypatch, here, cores):
    """What it alone has, or a GPU, is not shared by child processes: more jobs would not help."""
    monkeypatch.setattr(comparing, "cores", lambda: 8)
    assert moca.compare(**FAST | here, seeds=1, out=tmp_path / "out").cost.cores == cores


def test_runs_on_a_gpu_have_no_cores_to_share(tmp_path, monkeypatch, as_on_a_gpu):
    monkeypatch.setattr(comparing, "cores", lambda: 8)
    assert moca.compare(**FAST, seeds=1, out=tmp_path / "out").cost.cores == 1


@pytest.fixture
def as_on_a_gpu(monkeypatch):
    """Comparisons believe that there is a GPU; the runs know better."""
    monkeypatch.setattr(comparing, "pick_device", lambda name: torch.device("cuda"))
    monkeypatch.setattr(pack, "on_stream", lambda device: nullcontext)


@pytest.mark.parametrize(("jobs", "at_a_time"), [(None, 8), (1, 1), (3, 3)])
def test_a_comparison_packs_its_runs_on_a_gpu(tmp_path, monkeypatch, as_on_a_gpu, jobs, at_a_time):
    asked = []
    monkeypatch.setattr(
        comparing, "take_turns", lambda e, at_a_time, _: asked.append(at_a_time) or take_turns(e, at_a_time)
    )
    made = moca.compare(**FAST | {"lr": [0.1, 0.2]}, seeds=2, jobs=jobs, out=tmp_path / "out")
    assert asked == [at_a_time]
    assert [len(row.finished) for row in made.rows] == [2, 2]
    assert (made.cost.runs, made.cost.packed) == (4, min(at_a_time, 4))


def test_what_a_comparison_cost(tmp_path, as_on_a_gpu):
    made = moca.compare(**FAST, seeds=3, out=tmp_path / "out")
    images = sum(r.images_per_second * r.seconds for r in made.results)
    assert made.cost.images == pytest.approx(images)
    assert made.cost.seconds > max(r.seconds for r in made.results)
    assert made.cost.images_per_second == pytest.approx(images / made.cost.seconds)
    kept = json.loads((tmp_path / "out" / "cost.json").read_text())
    assert kept == made.cost.numbers()
    assert kept.keys() == {"runs", "seconds", "images", "packed", "jobs", "cores", "images_per_second"}
    again = moca.compare(**FAST, seeds=3, out=tmp_path / "out")
    assert again.cost is None, "nothing was left to do"
    assert json.loads((tmp_path / "out" / "cost.json").read_text()) == kept
    more = moca.compare(**FAST, seeds=4, out=tmp_path / "out")
    assert (more.cost.runs, more.cost.packed) == (1, 1)
    assert more.cost.images == pytest.approx(images / 3, rel=0.01)


def test_the_mistake_of_one_run_comes_after_the_results_of_the_others_are_kept(tmp_path, as_on_a_gpu):
    (tmp_path / "out" / "er-s1").mkdir(parents=True)
    (tmp_path / "out" / "er-s1" / "thesis.tex").write_text("years of work")
    comparison = moca.compare(**FAST, seeds=3, out=tmp_path / "out")
    assert "er-s1: run folder" in comparison.mistakes[0]
    with (tmp_path / "out" / "runs.csv").open(newline="") as file:
        assert [record["status"] for record in csv.DictReader(file)] == ["finished", "failed", "finished"]


@pytest.mark.parametrize("error", [Held, MocaError])
def test_a_run_that_could_not_be_opened_leaves_no_memory_behind(tmp_path, as_on_a_gpu, monkeypatch, error):
    made, left = weakref.WeakSet(), []

    class Late(Running):
        def __init__(self, *args, **kwargs):
            left.append(len(made))
            super().__init__(*args, **kwargs)
            self.graph = self  # as recorded steps do
            made.add(self)

        def start(self, out):
            if len(left) == 1:
                raise error("it cannot be done, or not yet")
            return super().start(out)

    monkeypatch.setattr(comparing, "Running", Late)
    gc.disable()
    try:
        moca.compare(**FAST, seeds=2, jobs=1, out=tmp_path)
    finally:
        gc.enable()
    assert left[:2] == [0, 0]


def test_collections_while_runs_take_turns_pass_over_what_was_there_before(tmp_path, as_on_a_gpu, monkeypatch):
    looked_at, frozen_before = [], gc.get_freeze_count()

    class Garbage:
        def __init__(self):
            self.itself = self

    def start(*args, **kwargs):
        looked_at.append((len(gc.get_objects()), gc.get_freeze_count(), garbage() is None))
        raise MocaError("cannot be done")

    monkeypatch.setattr(Running, "start", start)
    gc.unfreeze()
    try:
        everything, garbage = len(gc.get_objects()), weakref.ref(Garbage())
        with pytest.raises(MocaError, match="cannot be done"):
            moca.compare(**FAST, out=tmp_path)
        assert gc.get_freeze_count() == 0
    finally:
        if frozen_before:
            gc.freeze()
    young, frozen, gone = looked_at[0]
    assert gone, "garbage of before does not hold its memory all the while"
    assert young < everything / 10
    assert frozen > everything / 2


def test_ctrl_c_before_any_run_began(tmp_path, as_on_a_gpu, monkeypatch):
    def start(*args, **kwargs):
        signal.raise_signal(signal.SIGINT)
        raise MocaError("cannot be done")

    monkeypatch.setattr(Running, "start", start)
    with pytest.raises(Interrupted):
        moca.compare(**FAST, seeds=3, out=tmp_path / "out")
    assert [file.name for file in tmp_path.rglob("*.json")] == ["compare.json"]  # what moca resume goes on with


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("execution", ["eager", "captured"])
def test_packed_on_a_gpu(tmp_path, execution):
    gpu = {"device": "cuda", "precision": "fp32", "execution": execution, "epochs": 5}
    plans = [plan_of(tmp_path / "packed", name, **MIXED[name] | gpu) for name in ("er", "vt", "wap", "ace", "finetune")]
    for p, result in zip(plans, take_turns(jobs_of(plans), 4), strict=True):
        expected = take_turns(jobs_of([Plan(p.label, p.settings, p.stream, tmp_path / "alone" / p.label)]), 1)[0]
        assert_same(result, expected)
