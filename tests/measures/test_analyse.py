"""The analyses of finished runs: against the model itself, and of runs that are not as they should be."""

import itertools
import json
import math
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

import moca
from moca import MocaError
from moca.cli import main
from moca.cli.analysis_tables import tables
from moca.engine.folder import RunFolder
from moca.locking import lock
from moca.measures.analyse import ASKED_FOR, KNOWN, _unrecorded, final_model
from moca.measures.analysis import Analysis, Axis, Plot, known, read, write
from moca.measures.record.recorder import KINDS
from moca.report.comparison import Comparison
from moca.report.side_by_side import Group, groups
from moca.settings import Run, validate

SMALL = {"epochs": 1, "batch": 100, "tasks": 2, "model": "mlp:width=16,features=2", "device": "cpu", "threads": 1}
PAGE = Path(__file__).parents[2] / "docs/analyses.md"
OF_MODEL = {
    "test_angle_deviation",
    "classifier_angles",
    "angular_fisher_score",
    "confusion",
    "lead_of_new_classes",
    "linear_probe",
    "calibration",
    "feature_plane",
    "forgetting_by_class",
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """On digits: two methods, one with two seeds, the first recorded."""
    place = tmp_path_factory.mktemp("runs")
    moca.run(**SMALL, perturb="none", record=["angles", "gradients"], out=place / "er")
    for seed in (0, 1):
        moca.run(**SMALL, perturb="gaussian:lambda=0.5", seed=seed, out=place / f"gaussian-{seed}")
    return place


def said(capsys, *words):
    with pytest.raises(SystemExit) as ended:
        main(["analyse", *map(str, words)])
    return ended.value.code, capsys.readouterr()


def test_what_a_prompt_shows_of_them(runs):
    found = moca.analyse(runs / "er")
    assert repr(found) == f"Analysed run '{runs / 'er'}': {', '.join(found.analyses)}"
    assert "confusion" in found and "colours" not in found
    assert list(found) == list(found.analyses)


def test_all_that_a_finished_run_allows(runs):
    found = moca.analyse(runs / "gaussian-0")
    assert found.analyses.keys() == OF_MODEL
    assert found.missing == [
        "angle deviation in training: was not recorded; run again with record=angles",
        "singular values of feature gradients: was not recorded; run again with record=gradients",
        "angle of the perturbation: was not recorded; run again with record=perturbation",
        "logit adjustment after every task: was not recorded; run again with record=lead",
    ]
    assert moca.analyse(runs / "er").analyses.keys() == OF_MODEL | {"angle_deviation", "gradient_spectrum"}


def test_the_lead_as_if_the_learner_had_been_told_to_adjust(runs, tmp_path):
    foreseen = moca.analyse(runs / "er")["lead_of_new_classes"].numbers
    moca.run(**SMALL, learner="er:adjust=1", perturb="none", out=tmp_path / "adjusted")
    found = moca.analyse(tmp_path / "adjusted")
    right = found["confusion"].numbers["accuracy on all test images (%)"]
    assert right == pytest.approx(foreseen["accuracy, adjust=1 (%)"])
    assert right != pytest.approx(foreseen["accuracy, as trained (%)"])
    assert found["lead_of_new_classes"].numbers == pytest.approx(foreseen | {"adjust of the run": 1})


def test_numbers_are_those_of_the_run(runs):
    found, result = moca.analyse(runs / "gaussian-0"), moca.Result.load(runs / "gaussian-0")
    counts = found["confusion"].arrays["counts"]
    accuracy = found["confusion"].numbers["accuracy on all test images (%)"]
    assert accuracy == pytest.approx(100 * np.trace(counts) / counts.sum(), rel=1e-5)
    taken = found["confusion"].numbers["old classes taken for new ones (%)"]
    assert taken == pytest.approx(100 * counts[:5, 5:].sum() / counts[:5].sum(), rel=1e-5)
    by_task = found["linear_probe"].plots["linear_probe"].series["own classifier"]
    assert by_task == pytest.approx(result.accuracy_matrix[-1], abs=1e-5)
    lines = [json.loads(line) for line in (result.folder / "tasks.jsonl").read_text().splitlines()]
    by_class = [line["by_class"] for line in lines]
    assert by_class[-1] == pytest.approx((counts.diagonal() / counts.sum(1)).tolist())
    lost = found["forgetting_by_class"].plots["forgetting_by_class"]
    assert lost.x.values == ["0", "1", "2", "3", "4"]
    fallen = [by_class[1][c] - by_class[2][c] for c in range(5)]
    assert lost.series["test"] == pytest.approx(fallen, abs=1e-5)
    mean = found["forgetting_by_class"].numbers["mean over old classes (%)"]
    assert mean == pytest.approx(20 * sum(fallen), abs=1e-3)


def test_tasks_that_share_their_classes_are_told_apart_by_their_images(tmp_path):
    result = moca.run(**SMALL, arrival="domains", out=tmp_path / "run")
    found = moca.analyse(tmp_path / "run")
    by_task = found["linear_probe"].plots["linear_probe"].series["own classifier"]
    assert by_task == pytest.approx(result.accuracy_matrix[-1], abs=1e-5)
    assert by_task[0] != by_task[1]
    assert found["confusion"].plots.keys() == {"confusion"}, "a class is of every task"
    assert found["confusion"].numbers["old classes taken for new ones (%)"] is None
    assert found.lacks("classifier_angles") == ["classifier_angles: all tasks of the run have the same classes"]


def test_features_and_class_vectors_are_those_of_the_model(runs):
    found = moca.analyse(runs / "er")
    _, state = RunFolder(runs / "er").load_model()
    plane = found["feature_plane"]
    points = plane.plots["feature_plane"].series["training"]
    torch.testing.assert_close(torch.tensor(points["vectors"]), state["model"]["head.weight"], rtol=1e-4, atol=1e-5)
    assert set(points["class"]) == set(range(10)), "old ones from the memory, new ones from the last task"
    assert [c < 5 for c in points["class"]] == points["old"]
    stored = state["memory"]["fields"]["y"][:-1]  # the last row takes what is dropped
    assert sum(points["old"]) == (stored < 5).sum()
    unit = state["model"]["head.weight"][:5].double()
    unit = unit / unit.norm(dim=1, keepdim=True)
    angles = [math.degrees(math.acos((unit[a] @ unit[b]).clamp(-1, 1))) for a in range(5) for b in range(5) if a != b]
    (within, between), (_, other) = found["classifier_angles"].plots["classifier_angles"].series["class vectors"]
    assert within == pytest.approx(sum(angles) / 20, abs=1e-2)
    numbers = found["classifier_angles"].numbers
    assert numbers["between tasks (degrees)"] == between
    assert numbers["within tasks (degrees)"] == pytest.approx((within + other) / 2, rel=1e-4)


@pytest.mark.parametrize(
    ("form", "share_of_teacher"), [("mean", 1), ("mkd", 0.5), ("cls,tested=student", 0)], ids=lambda value: str(value)
)
def test_features_are_those_of_the_network_that_is_tested(tmp_path, form, share_of_teacher):
    moca.run(**SMALL, learner=f"teacher:of=er,form={form}", out=tmp_path / "run")
    found = moca.analyse(tmp_path / "run")
    _, state = RunFolder(tmp_path / "run").load_model()
    teacher, student = state["learner"]["stable"]["head.weight"], state["model"]["head.weight"]
    assert not torch.allclose(teacher, student)
    vectors = torch.tensor(found["feature_plane"].plots["feature_plane"].series["test"]["vectors"])
    tested = share_of_teacher * teacher + (1 - share_of_teacher) * student
    torch.testing.assert_close(vectors, tested, rtol=1e-4, atol=1e-5)


def test_what_was_computed_is_not_computed_again(runs, monkeypatch):
    first = moca.analyse(runs / "gaussian-1")
    monkeypatch.setattr("moca.measures.analyse.OfModel", None)
    again = moca.analyse(moca.Result.load(runs / "gaussian-1"))
    assert again.numbers == first.numbers
    with pytest.raises(TypeError):
        moca.analyse(runs / "gaussian-1", again=True)


def test_what_an_older_moca_did_not_know_or_called_otherwise_is_computed(runs, tmp_path):
    older = copied(runs / "gaussian-1", tmp_path / "older")
    first = moca.analyse(older)
    kept = json.loads((older / "analysis.json").read_text())
    kept["analyses"]["probe"] = kept["analyses"].pop("linear_probe")
    kept["analyses"]["implicit_augmentation"] = kept["analyses"]["confusion"]
    del kept["sought"]
    (older / "analysis.json").write_text(json.dumps(kept))
    again = moca.analyse(older)
    assert again.analyses.keys() == first.analyses.keys() | {"implicit_augmentation"}, "that takes minutes, and stays"
    (older / "model.safetensors").unlink()
    (older / "analysis.json").write_text(json.dumps(kept))
    assert "probe" in moca.analyse(older).analyses, "without the weights there is nothing in its place"


@pytest.mark.parametrize(
    ("model", "told"), [("mlp", False), ("identity", False), ("convnet", True), (torch.nn.Flatten(), True)]
)
def test_batch_norm_is_not_asked_for_where_there_is_none(runs, model, told):
    settings = moca.Result.load(runs / "er").settings
    result = moca.Result(validate(Run, dict(settings) | {"model": model}), runs / "er", "finished")
    lines = " ".join(_unrecorded(result, {}).values())
    assert ("record=batch_norm" in lines) is ("record=rules" in lines) is told, "of one's own nobody knows"


def test_runs_are_named_by_method_and_seeds_averaged(runs):
    analysed = [moca.analyse(runs / name) for name in ("er", "gaussian-0", "gaussian-1")]
    (setting,) = Comparison.load(runs).settings
    found = groups(setting.rows)
    assert [(group.label, len(group.runs)) for group in found] == [("er", 1), ("er+gaussian:lambda=0.5", 2)]
    values = [run["calibration"].numbers["expected calibration error (%)"] for run in analysed[1:]]
    spread = found[1].number("calibration", "expected calibration error (%)")
    assert spread.mean == pytest.approx(sum(values) / 2)
    assert spread.std == pytest.approx(abs(values[0] - values[1]) / math.sqrt(2))
    assert math.isnan(found[1].number("angle_deviation", "old classes, test (degrees)").mean)


def test_the_command(runs, capsys, monkeypatch):
    monkeypatch.setattr("moca.report.printing.DOTS", 20)
    shown = ("classifier_angles", "calibration")
    code, told = said(capsys, runs, "--out", runs / "figures", "--only", *shown)
    assert code == 0
    assert "Confusion" not in told.out
    assert "er+gaussian:lambda=0.5 (2 seeds)" in told.out
    drawn = {path.name for path in (runs / "figures").iterdir()}
    for name in ("classifier_angles", "calibration"):
        assert {f"{name}.pdf", f"{name}.png"} <= drawn
    assert not {"confusion.pdf", "linear_probe.pdf"} & drawn
    over_images = "is the mean over images; a run's final accuracy is the mean over tasks."
    assert over_images not in " ".join(told.out.split())
    told = said(capsys, runs / "er", "--only", "confusion", "--no-figures")[1]
    assert over_images in " ".join(told.out.split()), "moca run prints the other one"
    assert (runs / "figures/calibration.pdf").read_bytes().startswith(b"%PDF")


def test_what_was_asked_for_and_is_not_there_is_one_line(runs, capsys):
    for words, line in (
        (
            ["--only", "angle_deviation"],
            "angle deviation in training: was not recorded; run again with --record angles",
        ),
        (["--only", "implict"], "there is no analysis 'implict'; did you mean 'implicit_augmentation'?"),
        (
            ["--only", "implicit_augmentation", "--classes", "bird"],
            "'bird' is not a class of an earlier task; known: 0, 1, 2, 3, 4",
        ),
    ):
        code, told = said(capsys, runs / "gaussian-0", *words)
        assert (code, told.out, told.err) == (1, "", f"moca: {line}\n")
    assert moca.analyse(runs / "gaussian-0").lacks("angle_deviation")[0].endswith("run again with record=angles")
    code, told = said(capsys, runs, "--only", "perturbation_angle", "angle_deviation", "--no-figures")
    assert code == 0
    assert "Skipped: angle deviation in training: was not recorded; run again with --record angles (g" in told.out
    for analysis, why in (
        ("perturbation_angle", "angle of the perturbation: the run has no perturbation"),
        ("batch_norm_rules", "accuracy under other rules of BatchNorm: the encoder has no BatchNorm"),
    ):
        assert moca.analyse(runs / "er").lacks(analysis) == [why]


def test_why_one_task_has_no_lead_is_told(tmp_path):
    moca.run(tasks=1, epochs=1, out=tmp_path / "one", device="cpu")
    (why,) = moca.analyse(tmp_path / "one", device="cpu").lacks("lead_of_new_classes")
    assert why.startswith("lead_of_new_classes: there is none: one task has all classes")


def test_a_narrow_terminal_cuts_no_name_and_no_number():
    def found(value):
        return {"one": Analysis("One", "", {"a long name of a number": value, "%": 1.0}),
                "two": Analysis("Two", "", {"wap: turned by": 2 * value, "wap: missed by": 3.0})}  # fmt: skip

    methods = [Group(f"derpp+gaussian:lambda={k}", [found(k + 0.1), found(k + 0.3)]) for k in range(1, 7)]
    for width in (60, 300):
        console = Console(width=width, color_system=None)
        with console.capture() as shown:
            for part in tables("title", methods, console):
                console.print(part)
        lines = shown.get().splitlines()
        assert "…" not in shown.get()
        assert lines[0] == "title; mean ± standard deviation of 2 seeds"
        values = [f"{k + 0.2:.3f} ± 0.141" for k in range(1, 7)]
        if width == 60:
            assert [line.split()[0] for line in lines if values[0] in line] == [methods[0].label]
            assert all(any(value in line for line in lines) for value in values)
        else:
            assert any(all(value in line for value in values) for line in lines)
        grid = [line.split() for line in lines if line.startswith("   wap")]
        assert grid[0] == ["wap", "2.400", "±", "0.283", "3.000", "±", "0.000"], "a row a thing, a table a method"
        assert len(grid) == 6


def test_a_narrow_terminal_names_a_method_only_where_it_has_numbers():
    methods = [
        Group("a method without weights", [{}]),
        Group("a method with them", [{"one": Analysis("One", "", {"%": 1.0})}]),
    ]
    console = Console(width=30, color_system=None)
    with console.capture() as shown:
        for part in tables("title", methods, console):
            console.print(part)
    assert "with them" in shown.get()
    assert "without weights" not in shown.get()


def test_other_data_are_kept_apart(runs, make_dataset, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("moca.report.printing.DOTS", 20)
    moca.run(data=make_dataset(), epochs=1, tasks=2, out=tmp_path / "toy", device="cpu")
    assert moca.analyse(tmp_path / "toy").missing[-1].endswith("pass them again: moca.analyse(run, data=...)")
    assert "confusion" in moca.analyse(tmp_path / "toy", data=make_dataset()).analyses
    code, told = said(capsys, runs / "er", tmp_path / "toy", "--only", "calibration", "--out", tmp_path / "figures")
    assert code == 0
    assert "shown separately: their numbers cannot be compared" in told.out
    assert {"1-calibration.pdf", "2-calibration.pdf"} <= {path.name for path in (tmp_path / "figures").iterdir()}


def test_a_comparison_is_analysed_run_by_run(tmp_path):
    comparison = moca.compare(epochs=1, tasks=2, seeds=1, out=tmp_path / "c", device="cpu")
    for given, take in itertools.product((comparison, tmp_path / "c"), (moca.analyse, final_model)):
        with pytest.raises(MocaError, match=r"an analysis takes one run.*\[moca.analyse\(run\) for run in "):
            take(given)
    assert [moca.analyse(run).numbers for run in moca.Comparison.load(tmp_path / "c").results]


def test_runs_that_cannot_be_analysed(runs, tmp_path, capsys):
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun/settings.json").write_text((runs / "er/settings.json").read_text())
    with pytest.raises(MocaError, match=r"has not ended; continue with: moca.resume\('.*begun'\)$"):
        moca.analyse(tmp_path / "begun")
    with lock(tmp_path / "begun/lock"), pytest.raises(MocaError, match="is still going on; wait for its end"):
        moca.analyse(tmp_path / "begun")
    (tmp_path / "empty").mkdir()
    assert "there is no run in" in said(capsys, tmp_path / "empty")[1].err
    code, told = said(capsys, runs / "er", runs / "gaussian-0", tmp_path / "begun", "--no-figures")
    assert code == 1
    assert "Skipped: angle deviation in training: was not recorded; run again with --record angles (gaus" in told.out
    assert "Intra-class angle deviation" in told.out
    assert "moca: run " in told.err


def copied(run, place):
    place.mkdir()
    for path in run.iterdir():
        if path.is_file():
            (place / path.name).write_bytes(path.read_bytes())
    (place / "analysis.json").unlink(missing_ok=True)
    return place


def test_weights_that_are_not_there_and_older_runs(runs, tmp_path):
    bare = copied(runs / "er", tmp_path / "bare")
    (bare / "model.safetensors").unlink()
    for _ in range(2):  # computed, then read
        found = moca.analyse(bare)
        assert found.analyses.keys() == {"forgetting_by_class"}
        assert found["forgetting_by_class"].numbers == moca.analyse(runs / "er")["forgetting_by_class"].numbers
        assert found.missing[-1] == "the final model: its weights were not kept; run again with record=weights"
    with pytest.raises(MocaError, match="has no analysis 'confusion'"):
        found["confusion"]
    older = copied(runs / "er", tmp_path / "older")
    lines = [json.loads(line) for line in (older / "tasks.jsonl").read_text().splitlines()]
    text = "".join(json.dumps({k: v for k, v in line.items() if k != "by_class"}) + "\n" for line in lines)
    (older / "tasks.jsonl").write_text(text)
    assert "of an older moca" in moca.analyse(older).missing[-1]
    gone = copied(runs / "er", tmp_path / "gone")
    settings = json.loads((gone / "settings.json").read_text())
    (gone / "settings.json").write_text(json.dumps(settings | {"data": "nowhere"}))
    assert "nowhere" in moca.analyse(gone).missing[-1]


def test_images_that_changed_since_are_not_taken_for_those_of_the_run(make_dataset, tmp_path):
    toy = make_dataset()
    then, now = (
        moca.data.dataset((images, toy.train.labels), (toy.test.images, toy.test.labels))
        for images in (toy.train.images, 255 - toy.train.images)
    )
    run = moca.run(data=then, model="mlp", epochs=1, tasks=2, out=tmp_path / "toy", device="cpu")
    assert "confusion" not in (found := moca.analyse(run, data=now)).analyses
    assert "the images of 'own' are no longer those that the run learnt" in found.missing[-1]
    assert "confusion" in moca.analyse(run, data=then).analyses


def test_recordings_that_were_lost_are_told_as_such(runs, tmp_path):
    shutil.copytree(runs / "er", lost := tmp_path / "er")
    (lost / "analysis.json").unlink()
    for _ in range(2):  # the first look writes the file anew, with what can be computed
        assert moca.analyse(lost).missing[0] == (
            "angle deviation in training: was recorded, but analysis.json no longer has it; run again"
        )


def test_what_cannot_be_computed_again_stays(runs, tmp_path):
    bare = copied(runs / "er", tmp_path / "bare")
    before = moca.analyse(bare).numbers
    settings = json.loads((bare / "settings.json").read_text())
    (bare / "settings.json").write_text(json.dumps(settings | {"data": "nowhere"}))
    for gone in ("nowhere", "its weights were not kept"):  # the images, then the weights, too
        found = moca.analyse(bare, again=True)
        assert gone in found.missing[-1]
        assert found.numbers == before
        (bare / "model.safetensors").unlink(missing_ok=True)


def test_a_file_is_written_only_where_something_was_computed(runs, tmp_path):
    bare = copied(runs / "er", tmp_path / "bare")
    moca.analyse(bare)
    kept = json.loads((bare / "analysis.json").read_text())
    (bare / "analysis.json").write_text(spelt := json.dumps(kept, indent=1))  # the same, in other bytes
    moca.analyse(bare)
    assert (bare / "analysis.json").read_text() == spelt, "it has all already"
    (bare / "analysis.npz").unlink()
    moca.analyse(bare, again=True)
    assert (bare / "analysis.npz").is_file(), "what is lost is written"
    (bare / "model.safetensors").unlink()
    (bare / "tasks.jsonl").unlink()
    kept["sought"] = []
    (bare / "analysis.json").write_text(spelt := json.dumps(kept, indent=1))
    moca.analyse(bare)
    assert (bare / "analysis.json").read_text() == spelt, "of another moca, and nothing to compute anew from"


def test_a_file_of_another_version_is_told(runs, tmp_path):
    damaged = copied(runs / "er", tmp_path / "damaged")
    for content in ('{"format": 99, "analyses": {}}', '{"format": 1}', '{"format": 1, "analyses": {"a": {"b": 1}}}'):
        (damaged / "analysis.json").write_text(content)
        with pytest.raises(MocaError, match="is damaged or of another version of moca"):
            moca.analyse(damaged)


@pytest.mark.parametrize("size", [0, 20, 100])
@pytest.mark.parametrize("name", ["analysis.json", "analysis.npz"])
def test_a_file_that_broke_off_is_named_with_what_to_do(tmp_path, name, size):
    write(RunFolder(tmp_path), {"t": Analysis("T", "says", {"n": 1.0}, {}, arrays={"a": np.arange(99)})})
    (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:size])
    with pytest.raises(MocaError, match=rf"{name}.* is damaged .*; remove both, and what was not recorded"):
        read(RunFolder(tmp_path))


def test_what_is_written_is_read(tmp_path):
    plot = Plot("lines", Axis("x", [1, 2]), Axis("y", log=True), {"a": [0.123456789, None]}, diagonal=True)
    analysis = Analysis("T", "about", {"n": 1.5, "none": None}, {"p": plot}, "recorded", {"big": np.arange(3)})
    write(RunFolder(tmp_path), {"t": analysis})
    back = read(RunFolder(tmp_path))["t"]
    assert back.plots["p"].series == {"a": [0.123457, None]}
    assert (back.title, back.numbers, back.source) == ("T", {"n": 1.5, "none": None}, "recorded")
    assert back.arrays["big"].tolist() == [0, 1, 2]
    assert known({"a": (math.nan, math.inf, 1e-20)}) == {"a": [None, None, 1e-20]}


def test_arrays_that_are_damaged(tmp_path):
    write(RunFolder(tmp_path), {"t": Analysis("T", "about", arrays={"big": np.arange(1000)})})
    whole = (tmp_path / "analysis.npz").read_bytes()
    for content in (b"", b"broken", whole[:-30], whole[:60] + bytes(30) + whole[90:]):
        (tmp_path / "analysis.npz").write_bytes(content)
        with pytest.raises(MocaError, match=r"analysis.npz beside it, is damaged"):
            read(RunFolder(tmp_path))
        assert read(RunFolder(tmp_path), arrays=False)["t"].title == "T"


def test_an_analysis_that_there_is_not(runs, capsys):
    code, told = said(capsys, runs / "er", "--only", "calibrations")
    assert (code, told.err.strip()) == (1, "moca: there is no analysis 'calibrations'; did you mean 'calibration'?")


def test_the_names_are_those_that_there_are(runs):
    assert OF_MODEL | {kind.leads_to for kind in KINDS.values()} | set(ASKED_FOR) == set(KNOWN)


def test_a_result_brings_what_exists_only_in_python(tmp_path):
    """A class of a notebook need not be passed again to the analysis of the run that was just made with it."""

    class Local(moca.Perturbation):
        def direction(self, replay, new):
            return -replay.features

    data = (np.random.default_rng(0).random((80, 8, 8)), np.arange(80) % 4)
    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 4))
    run = moca.run(**SMALL | {"model": module}, perturb=Local, data=data, out=tmp_path / "run")
    for moved in (run, *moca.compare(perturb=[Local], seeds=1, record="weights", out=tmp_path / "c", **SMALL).results):
        assert "confusion" in moca.analyse(moved).analyses
    (told,) = [line for line in moca.analyse(run.folder, again=True).missing if "only in Python" in line]
    assert told.endswith("pass them again: moca.analyse(run, data=..., perturb=..., model=...)")
    assert moca.analyse(run.folder, again=True, data=data, perturb=Local, model=module)["confusion"]


def test_the_page_about_it_runs(tmp_path, monkeypatch):
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for block in blocks:
        exec(block, names)
    final, confusion = names["final"], names["found"]["confusion"]
    right = (final.scores.argmax(1) == final.labels).double().mean().item()
    assert 100 * right == pytest.approx(confusion.numbers["accuracy on all test images (%)"], abs=0.01)
    assert len(final.training_features) == len(final.train)
    assert "angle of the perturbation: was not recorded; run again with record=perturbation" in names["found"].missing
    assert names["found"].numbers["angle_deviation: new classes, training (degrees)"] > 0
    for name in KNOWN:
        assert f"`{name}`" in PAGE.read_text()
