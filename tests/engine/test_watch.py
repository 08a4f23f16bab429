"""Watchers: what they are told, that they change nothing, and that nothing is done when nobody asks."""

import math
import os
import signal
from pathlib import Path

import numpy as np
import pytest
import torch

import moca
from moca import MocaError, Watcher
from moca.engine.outputs import KNOWN
from tests.engine.helpers import begin, finish
from tests.engine.test_run import FAST, assert_same_run, interrupt_when

SHORT = FAST | {"epochs": 2, "tasks": 2}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """What a run leaves, it leaves there."""
    monkeypatch.chdir(tmp_path)


class Everything(Watcher):
    wants = KNOWN

    def __init__(self):
        self.begun, self.records, self.tests, self.results = [], [], [], []

    def begin(self, run):
        self.begun.append(run.settings)

    def step(self, record):
        self.records.append(record)

    def task(self, record):
        self.tests.append(record)

    def end(self, result):
        self.results.append(result)


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    watcher, folder = Everything(), tmp_path_factory.mktemp("watched")
    settings = SHORT | {"perturb": "gaussian:lambda=1"}
    moca.run(**settings, out=folder / "plain", keep_model=False)
    moca.run(**settings, out=folder / "watched", keep_model=False, watch=watcher)
    return watcher, folder


def test_watching_changes_nothing(watched):
    _, folder = watched
    assert_same_run(folder / "plain", folder / "watched")


def test_what_is_told(watched):
    watcher, _ = watched
    (result,) = watcher.results
    assert watcher.begun == [result.settings]
    assert [r.step for r in watcher.records] == list(range(1, result.steps + 1))
    assert [t.learned for t in watcher.tests] == [0, 1, 2]
    assert [t.accuracies.class_il for t in watcher.tests] == result.accuracy_matrix
    assert all(math.isclose(r.loss, sum(r.losses.values())) for r in watcher.records)


def test_every_output_that_is_known_comes_from_the_second_step_on(watched):
    watcher, _ = watched
    assert {"new.x", "new.features", "new.features.gradient"} <= watcher.records[0].outputs.keys()
    assert not any(name.startswith("replay") for name in watcher.records[0].outputs)
    stored = {"replay.logits"}  # er keeps none
    assert all(r.outputs.keys() == set(KNOWN) - stored for r in watcher.records[1:])


def test_outputs_are_those_of_the_step(watched):
    watcher, _ = watched
    for record in watcher.records[1:]:
        out = record.outputs
        loss = torch.nn.functional.cross_entropy(out["new.logits"], out["new.y"])
        assert loss.item() == pytest.approx(record.losses["new"], rel=1e-5)
        angle = moca.sphere.angle(out["replay.features"], out["replay.moved"])
        first = record.task == 0
        moved = torch.zeros_like(out["replay.old"]) if first else out["replay.old"]
        assert ((angle > 1e-3) == moved).all(), "old rows move, and only from the second task on"
        assert out["replay.features.gradient"].shape == out["replay.features"].shape
        assert not any(tensor.requires_grad for tensor in out.values())


def test_gradients_are_those_of_the_whole_loss(make_trainer):
    trainer = make_trainer(head="linear")
    trainer.learning.outputs.wanted = ("new.features.gradient", "new.logits", "new.y")
    out = next(trainer.steps()).outputs
    onehot = torch.nn.functional.one_hot(out["new.y"], 4)
    slope = (out["new.logits"].softmax(1) - onehot) / len(onehot)
    before = make_trainer(head="linear").learning.model.head.weight
    torch.testing.assert_close(out["new.features.gradient"], slope @ before)


def test_nothing_is_collected_when_nobody_asks(make_trainer):
    trainer = make_trainer(perturb="gaussian")
    assert all(step.outputs == {} for step in trainer.steps())


def test_an_output_that_there_is_not_is_refused_before_anything_is_done(tmp_path):
    class Mistaken(Watcher):
        wants = ("replay.feature",)

    with pytest.raises(MocaError, match=r"a step has no output 'replay.feature'; did you mean 'replay.features'\?"):
        moca.run(**SHORT, watch=Mistaken(), out=tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_something_that_is_no_watcher_is_refused():
    with pytest.raises(MocaError, match=r"watch takes objects of classes derived from moca.Watcher"):
        moca.run(**SHORT, watch=[print])


def test_a_resumed_run_tells_the_rest(tmp_path):
    whole, first, second = Everything(), Everything(), Everything()
    moca.run(**SHORT, out=tmp_path / "whole", watch=whole)
    half = finish(begin(SHORT, tmp_path / "half", interrupt_when(1), watchers=[first]))
    assert half.status == "interrupted"
    moca.resume(tmp_path / "half", watch=second)
    told = [(r.step, r.losses) for r in first.records + second.records]
    assert told == [(r.step, r.losses) for r in whole.records]


def test_a_comparison_can_be_watched(tmp_path):
    watcher = Everything()
    moca.compare(**SHORT | {"epochs": 1}, perturb=["none", "vt"], seeds=1, watch=watcher, jobs=2, out=tmp_path / "c")
    assert [s.perturb.name for s in watcher.begun] == ["none", "vt"]


def test_runs_of_a_comparison_can_have_a_watcher_each(tmp_path):
    made = []

    def make():
        made.append(Everything())
        return made[-1]

    moca.compare(**SHORT | {"epochs": 1}, perturb=["none", "vt"], watch=[make, Everything], jobs=2, out=tmp_path / "c")
    assert [[s.perturb.name for s in watcher.begun] for watcher in made] == [["none"], ["vt"]]
    assert [len(watcher.results) for watcher in made] == [1, 1]


def test_what_makes_no_watcher_is_refused(tmp_path):
    with pytest.raises(MocaError, match=r"watch takes watchers, or functions that make one: .* made \{\}"):
        moca.compare(**SHORT, watch=lambda: {}, out=tmp_path / "c")
    for watch in (3, int):
        with pytest.raises(MocaError, match="watch takes objects of classes derived"):
            moca.compare(**SHORT, watch=watch, out=tmp_path / "d")


def test_a_run_at_chance_says_so(tmp_path):
    result = moca.run(**SHORT | {"lr": 50.0}, out=tmp_path / "a")
    assert result.status == "finished"
    assert any("told apart no better than by guessing; another lr than 50" in note for note in result.notes)


@pytest.mark.parametrize(("tasks", "noted"), [(1, True), (2, False)])
def test_a_run_of_one_task_says_that_nothing_could_be_forgotten(tmp_path, tasks, noted):
    result = moca.run(**SHORT | {"learner": "joint", "tasks": tasks}, out=tmp_path / "a")
    assert any("all classes came in one task" in note for note in result.notes) == noted


@pytest.mark.parametrize(
    ("sizes", "says"),
    [
        ((40, 40, 40, 40), []),
        ((40, 40, 40, 4), ["classes have from 4 to 40 test images"]),
        ((4, 4, 4, 4), ["a task is tested on only 8 images, each of which is worth 12 points"]),
    ],
)
def test_a_run_on_few_or_uneven_test_images_says_what_its_accuracy_is_worth(tmp_path, sizes, says):
    labels = np.repeat(np.arange(4), sizes)
    images = np.random.default_rng(0).integers(0, 256, (len(labels), 8, 8), np.uint8)
    result = moca.run(data=((images, labels), (images[:, ::-1], labels)), tasks=2, epochs=1, out=tmp_path / "a")
    found = [note for note in result.notes if "test images" in note or "is tested on" in note]
    assert len(found) == len(says) and all(map(str.startswith, found, says))


@pytest.mark.parametrize(("learner", "epochs"), [("ssil", 1), ("finetune", 1), ("joint", 10)])
def test_a_task_of_one_class_is_at_chance_among_all(tmp_path, learner, epochs):
    """A class that is alone cannot be mistaken; among all, what SS-IL has not replayed yet is never chosen."""
    result = moca.run(**SHORT | {"learner": learner, "tasks": 10, "epochs": epochs}, out=tmp_path / "a")
    assert result.task_il_matrix[-1][-1] == 1
    guessed = result.accuracy_matrix[-1][-1] < 0.11
    assert guessed == (learner == "ssil")
    assert any("no better than by guessing" in note for note in result.notes) == guessed


@pytest.mark.parametrize("watch", [3, print, Everything])
def test_things_that_cannot_watch(watch):
    with pytest.raises(MocaError, match="watch takes objects of classes derived"):
        moca.run(**SHORT, watch=watch)


class Counting(moca.Learner):
    """Counts how often a task ends."""

    remembers = ("ends",)

    def prepare(self):
        self.ends = 0

    def losses(self, new, *replays):
        return {"new": torch.nn.functional.cross_entropy(new.logits, new.y)}

    def end_task(self, samples):
        self.ends += 1
        if len(samples.y) > 100 and self.ends == 1:
            os.kill(os.getpid(), signal.SIGINT)


def test_a_task_ends_once_also_where_the_stop_comes_with_its_end(tmp_path):
    """Ctrl-C while the first of two tasks is ending."""
    half = finish(begin(SHORT | {"learner": Counting}, tmp_path / "half"))
    assert half.status == "interrupted"
    state = torch.load(tmp_path / "half" / "checkpoint.pt", weights_only=True)["state"]
    kept = state["trainer"]
    resumed = moca.resume(tmp_path / "half")
    assert resumed.status == "finished"
    assert kept["learning"]["learner"]["ends"] == 1
    assert kept["schedule"]["task"] == 0
    assert state["task_ended"], "stopped before it was tested: its end is not told again"
    assert len(resumed.accuracy_matrix) == 3


@pytest.mark.parametrize(
    "returned", [3.0, None, {}, {"new": 1.0}, torch.zeros(()), {"new": torch.zeros(2)}, {"new": torch.zeros(())}]
)
def test_a_learner_that_returns_something_else_is_told_what_is_wanted(returned):
    class Mistaken(moca.Learner):
        def losses(self, new, *replays):
            return returned

    with pytest.raises(MocaError, match=r"losses of 'Mistaken' (must return|returns terms that)") as error:
        moca.run(**SHORT, learner=Mistaken)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("returned", [None, torch.zeros(3, 8), torch.zeros(1)])
def test_a_direction_of_another_shape_is_refused(returned):
    class Mistaken(moca.Perturbation):
        def direction(self, replay, new):
            return returned

    with pytest.raises(MocaError, match="direction of 'Mistaken' must return a tensor of"):
        moca.run(**SHORT, perturb=Mistaken)


def test_methods_that_lack_what_they_need():
    with pytest.raises(MocaError, match="has no method losses"):
        moca.run(**SHORT, learner=type("Empty", (moca.Learner,), {}))
    with pytest.raises(MocaError, match="has no method direction"):
        moca.run(**SHORT, perturb=type("Empty", (moca.Perturbation,), {}), out="empty")
    assert not Path("empty").exists(), "it is refused before the first task, which moves nothing"


class Huge(torch.nn.Module):
    """An encoder whose features are finite numbers, but of infinite length."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(64, 8)

    def forward(self, x):
        return 1e30 * self.layer(x.flatten(1))


class TestALossThatIsNotFinite:
    """What it is blamed on: the term, and who made it so."""

    def told(self, **settings):
        result = moca.run(**SHORT | settings)
        assert result.status == "diverged"
        assert "\n" not in result.message
        return result.message

    @pytest.mark.parametrize(
        ("step", "advice"),
        [
            (1, "step 1 (task 1, epoch 1): losses['mine']; nothing was trained before, so it is not lr: look at the"),
            (3, "step 3 (task 1, epoch 1): losses['mine']; lower lr, or look at your own code. The metrics"),
        ],
    )
    def test_the_term_is_named(self, step, advice):
        class Mistaken(moca.Learner):
            def prepare(self):
                self.steps = 0

            def losses(self, new, *replays):
                self.steps += 1
                term = new.features.mean() / (self.steps != step)
                return {"new": torch.nn.functional.cross_entropy(new.logits, new.y), "mine": term}

        assert advice in self.told(learner=Mistaken)

    def test_a_direction_that_is_not_finite(self):
        class Mistaken(moca.Perturbation):
            def direction(self, replay, new):
                return replay.features / 0

        told = self.told(perturb=Mistaken, batch=16)
        assert "(task 2, epoch 1): losses['replay']; 'Mistaken' made finite features NaN or infinite; look at" in told

    @pytest.mark.parametrize(
        ("term", "settings"), [("new", {"lr": 1e30, "head": "linear"}), ("replay", {"model": Huge, "batch": 16})]
    )
    def test_a_direction_is_not_blamed_for_features_that_were_not(self, term, settings):
        class Sound(moca.Perturbation):
            def direction(self, replay, new):
                return replay.features

        told = self.told(perturb=Sound, **settings)
        assert f"losses['{term}']" in told
        assert "; lower lr or lambda, or look at your own code. The metrics up to there are in" in told
