"""Recording while training: what is found, that the run does not notice, and that it can be interrupted."""

import json
import signal

import numpy as np
import pytest
import torch

import moca
from moca import MocaError, Watcher, sphere
from moca.engine.folder import RunFolder
from moca.measures.analysis import read
from moca.measures.angles import angle_deviation, mean_over
from moca.measures.record.recorder import spread
from moca.measures.spectrum import effective_rank, shares
from tests.engine.helpers import begin, finish
from tests.engine.test_reproducible import assert_identical
from tests.engine.test_run import assert_same_run

SMALL = {
    "tasks": 2,
    "epochs": 3,
    "batch": 6,
    "memory": 10,
    "lr": 0.1,
    "model": "convnet:width=2,features=5",
    "perturb": "gaussian:lambda=1",
    "device": "cpu",
    "threads": 1,
}
ALL = {"angle_deviation", "gradient_spectrum", "perturbation_angle", "batch_norm_shift"}


class Everything(Watcher):
    """What a naive twin needs: every output of every step."""

    wants = ("new.features", "new.y", "new.features.gradient", "replay.moved", "replay.features", "replay.y",
             "replay.old", "replay.moved.gradient")  # fmt: skip

    def __init__(self):
        self.records = []

    def step(self, record):
        self.records.append(record)


@pytest.fixture(scope="module")
def data(make_dataset):
    return make_dataset((15, 14, 12, 15), test_counts=(5, 5, 5, 5), crop_padding=1, flip=True)


@pytest.fixture(scope="module")
def recorded(data, tmp_path_factory):
    """The same run three times: plain, recorded, and recorded beside a watcher that looks at every step."""
    place, watcher = tmp_path_factory.mktemp("recorded"), Everything()
    moca.run(data=data, **SMALL, out=place / "plain")
    moca.run(data=data, **SMALL, record="all", out=place / "recorded")
    moca.run(data=data, **SMALL, record="all", out=place / "watched", watch=watcher)
    return place, watcher


def analyses(folder):
    return read(RunFolder(folder))


def written(folder):
    """All that was found, without the arrays."""
    return json.loads((folder / "analysis.json").read_text())["analyses"]


def assert_same_bits(folder, other):
    """The same run, recorded or not: lines, results, weights, memory and counters, bit for bit."""
    assert (folder / "steps.jsonl").read_bytes() == (other / "steps.jsonl").read_bytes()
    assert moca.Result.load(folder).accuracy_matrix == moca.Result.load(other).accuracy_matrix
    (_, a), (_, b) = (RunFolder(path).load_model() for path in (folder, other))
    assert_identical(a, b)


def test_recording_changes_nothing(recorded):
    place, _ = recorded
    assert_same_bits(place / "plain", place / "recorded")
    assert not (place / "plain" / "analysis.json").exists()
    assert analyses(place / "recorded").keys() == ALL


def test_others_that_watch_change_nothing_of_it(recorded):
    place, _ = recorded
    assert written(place / "recorded") == written(place / "watched")


def last_epoch(watcher):
    """The whole batches of the last epoch: the second task has 27 samples, in batches of 6."""
    late = [r for r in watcher.records if (r.task, r.epoch) == (1, 2)]
    assert [len(r.outputs["new.y"]) for r in late] == [6, 6, 6, 6, 3]
    return late[:4]


def test_the_deviation_in_training_is_that_of_the_features_as_the_classifier_saw_them(recorded):
    place, watcher = recorded
    outputs = [r.outputs for r in last_epoch(watcher)]
    rows = torch.cat([t for o in outputs for t in (o["new.features"], o["replay.moved"])])
    labels = torch.cat([t for o in outputs for t in (o["new.y"], o["replay.y"])])
    expected = angle_deviation(rows, labels)
    numbers = analyses(place / "recorded")["angle_deviation"].numbers
    assert numbers["old classes, training (degrees)"] == pytest.approx(mean_over(expected, [0, 1]), rel=1e-5)
    assert numbers["new classes, training (degrees)"] == pytest.approx(mean_over(expected, [2, 3]), rel=1e-5)


def test_the_deviation_on_test_images_is_that_of_the_model(recorded, data):
    place, _ = recorded
    numbers = analyses(place / "watched")["angle_deviation"].numbers
    found = moca.analyse(place / "watched", data=data)["test_angle_deviation"].numbers
    assert numbers["old classes, test (degrees)"] == pytest.approx(found["old classes (degrees)"], rel=1e-4)
    assert numbers["new classes, test (degrees)"] == pytest.approx(found["new classes (degrees)"], rel=1e-4)


def test_the_spectrum_is_that_of_the_gradients(recorded):
    place, watcher = recorded
    outputs = [r.outputs for r in last_epoch(watcher)]
    new = torch.cat([o["new.features.gradient"] for o in outputs]).double()
    replayed = torch.cat([o["replay.moved.gradient"] for o in outputs]).double()
    lengths = torch.cat([sphere.norm(o["replay.moved"]) for o in outputs]).double()
    rows = {
        "all rows": torch.cat([replayed, new]),
        "replayed rows": replayed,
        "new rows": new,
        "all rows, replayed ones at unit length": torch.cat([replayed * lengths, new]),
    }
    found = analyses(place / "recorded")["gradient_spectrum"]
    for name, those in rows.items():
        values = torch.linalg.svdvals(those)
        assert found.numbers[f"effective rank, {name}"] == pytest.approx(effective_rank(values), rel=1e-4)
        assert found.plots["singular_values"].series[name] == pytest.approx(shares(values).tolist(), rel=1e-3, abs=1e-7)
        kept = found.arrays[f"{name} after task 2"]
        np.testing.assert_allclose(kept, values.numpy(), rtol=1e-5, atol=1e-9)


def test_the_angles_of_the_perturbation_are_those_of_all_steps_of_a_short_task(recorded):
    place, watcher = recorded
    angles = torch.cat([
        sphere.angle(r.outputs["replay.features"], r.outputs["replay.moved"])[r.outputs["replay.old"]]
        for r in watcher.records
        if r.task == 1
    ]).rad2deg()  # fmt: skip
    found = analyses(place / "recorded")["perturbation_angle"]
    assert found.numbers["mean angle (degrees)"] == pytest.approx(angles.mean().item(), rel=1e-5)
    counts = found.arrays["counts in bins of 2 degrees, task 2"]
    assert counts.sum() == len(angles)
    assert counts[:23].sum() == (angles < 46).sum()


def test_distances_of_statistics_after_each_task(recorded):
    place, _ = recorded
    plots = analyses(place / "recorded")["batch_norm_shift"].plots
    over = plots["batch_norm_shift_over_tasks"].series
    assert over["replayed and new"][0] is None, "in the first task nothing is old"
    assert all(0 < value < 3 for value in over["running and test of new classes"])
    assert [len(values) for values in plots["batch_norm_shift"].series.values()] == [2, 2, 2], "two layers"
    assert list(over) == list(plots["batch_norm_shift"].series), "panels in one order"


class Stops(Watcher):
    """Ctrl-C, before this step."""

    wants = ("new.y",)

    def __init__(self, step):
        self.at = step

    def due(self, schedule):
        if schedule.steps_done == self.at:
            signal.raise_signal(signal.SIGINT)
        return False


@pytest.mark.parametrize("reached", [14, 28], ids=["first task", "last epoch"])
def test_an_interrupted_run_finds_the_same(recorded, data, tmp_path, reached):
    place, _ = recorded
    settings = SMALL | {"data": data, "record": "all"}
    half = finish(begin(settings, tmp_path / "half", watchers=[Stops(reached)]))
    assert (half.status, half.steps) == ("interrupted", reached)
    assert not (tmp_path / "half" / "analysis.json").exists()
    moca.resume(tmp_path / "half", data=data)
    assert written(tmp_path / "half") == written(place / "recorded")
    assert_same_run(tmp_path / "half", place / "recorded")


def test_runs_that_share_a_first_task_find_what_each_would_alone(data, tmp_path):
    """The baseline trains it, the other takes it over with what was recorded."""
    shared = {"data": data, **SMALL, "record": ["gradients", "angles"]}
    comparison = moca.compare(**shared | {"perturb": ["none", "gaussian:lambda=1"]}, out=tmp_path / "both")
    notes = [note for result in comparison.results for note in result.notes]
    assert any("its first task was trained by" in note for note in notes)
    alone = moca.run(**shared, out=tmp_path / "alone")
    (both,) = tmp_path.glob("both/er+gaussian*")
    assert written(both) == written(alone.folder)
    assert not (both / "model.safetensors").exists()


def test_weights_are_kept_where_asked_for(data, tmp_path):
    moca.compare(data=data, **SMALL | {"epochs": 1}, record="weights", out=tmp_path / "c")
    assert len(list(tmp_path.glob("c/*/model.safetensors"))) == 1


@pytest.mark.parametrize(
    "others",
    [{"learner": "joint", "perturb": "none"}, {"learner": "finetune", "perturb": "none"}, {"learner": "derpp"},
     {"learner": "icarl", "perturb": "none"}, {"learner": "agem", "perturb": "none"},
     {"learner": "proxy", "memory": 0}],
    ids=lambda others: others["learner"],
)  # fmt: skip
def test_every_kind_of_learner_can_be_recorded(data, tmp_path, others):
    settings = SMALL | {"epochs": 1} | others
    moca.run(data=data, **settings, out=tmp_path / "plain")
    moca.run(data=data, **settings, record="all", out=tmp_path / "recorded")
    assert_same_bits(tmp_path / "plain", tmp_path / "recorded")
    found = analyses(tmp_path / "recorded")
    assert {"angle_deviation", "gradient_spectrum"} <= found.keys()
    told = moca.analyse(tmp_path / "recorded", data=data).missing
    assert any("'icarl' predicts by other scores" in line for line in told) == (others["learner"] == "icarl")
    assert any("there is one task only" in line for line in told) == (others["learner"] == "joint")
    assert ("perturbation_angle" in found) == (settings["perturb"] != "none" and others["learner"] != "proxy")


def test_where_no_class_of_the_last_task_is_new_the_old_ones_are_told(data, tmp_path):
    moca.run(data=data, **SMALL, arrival="domains", record="angles,gradients", out=tmp_path / "run")
    found = analyses(tmp_path / "run")
    (bars,) = found["angle_deviation"].plots["angle_deviation"].series["training"][1:]
    assert bars is None
    assert found["angle_deviation"].numbers["old classes, training (degrees)"] > 0
    assert found["angle_deviation"].numbers["new classes, training (degrees)"] is None
    assert found["gradient_spectrum"].plots["singular_values"].mark is None
    assert "dashed" not in found["gradient_spectrum"].about


def test_the_dashed_line_among_the_singular_values_is_told(data, tmp_path):
    moca.run(data=data, **SMALL, record="gradients", out=tmp_path / "run")
    found = analyses(tmp_path / "run")["gradient_spectrum"]
    assert found.plots["singular_values"].mark and found.about.endswith(
        "The dashed line is at the number of new classes."
    )


def test_names_of_recordings():
    with pytest.raises(MocaError, match=r"record = 'angle': did you mean 'angles'\?"):
        moca.run(record="angle")


def test_steps_are_spread():
    assert spread(10, 13, 9) == {10, 11, 12, 13}
    assert spread(0, 99, 4) == {99, 74, 49, 24}
    assert spread(5, 5, 3) == {5}
    assert all(len(spread(0, total - 1, 50)) == min(total, 50) for total in range(1, 200))


def test_outputs_are_taken_of_no_more_steps_than_are_looked_at(data, tmp_path):
    run = begin(SMALL | {"data": data, "epochs": 20, "record": "gradients", "perturb": "none"}, tmp_path / "r")
    collected = []
    run.recorder.steps = lambda records: collected.extend(bool(r.outputs) for r in records)
    run.recorder.task = run.recorder.save = lambda *told: None
    finish(run)
    assert len(collected) == 20 * 10
    # 29 and 27 samples in batches of 6: five a task, of which four are whole; and 25 over the whole task
    assert 2 * 25 <= sum(collected) <= 2 * 29


def test_a_run_that_diverges_keeps_what_was_found(data, tmp_path):
    result = moca.run(
        data=data, **SMALL | {"lr": 1e25, "head": "linear", "epochs": 30}, record="all", out=tmp_path / "r"
    )
    assert result.status == "diverged"
    assert analyses(tmp_path / "r") == {}
    missing = moca.analyse(tmp_path / "r").missing
    assert missing[0] == "angle deviation in training: was recorded, but the run did not come so far"
    assert missing[-1] == "the final model: there is none, the run has diverged"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_recorded_graphs_do_not_notice(data, tmp_path):
    settings = SMALL | {"data": data, "device": "cuda", "execution": "captured", "epochs": 8, "precision": "fp32"}
    moca.run(**settings, out=tmp_path / "plain")
    moca.run(**settings, record="all", out=tmp_path / "recorded")
    moca.run(**settings | {"execution": "eager"}, record="all", out=tmp_path / "eager")
    assert_same_bits(tmp_path / "plain", tmp_path / "recorded")
    captured, eager = (analyses(tmp_path / name) for name in ("recorded", "eager"))
    assert captured.keys() == ALL
    for name in ("angle_deviation", "gradient_spectrum"):
        assert captured[name].numbers == pytest.approx(eager[name].numbers, rel=0.05)
