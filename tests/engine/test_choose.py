"""Choosing on held-out images: the best of each method is what is tested, and the test images play no part."""

import json
import math
import re
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import moca
from moca import MocaError, Watcher, cli
from moca.data import Split
from moca.engine.choose import Pick, best, methods, seeds_apart
from moca.engine.plan import folder_name, plan
from moca.engine.selection import with_history
from moca.errors import Interrupted
from moca.report.chosen import _picked, told_in
from moca.report.comparison import Comparison
from tests.engine.test_run import assert_same_run

TINY = {
    "tasks": 2,
    "epochs": 1,
    "batch": 8,
    "memory": 10,
    "device": "cpu",
    "threads": 1,
    "model": "mlp:width=8,depth=1",
}
SWEEP = TINY | {"perturb": ["none", "gaussian:lambda=0.5", "gaussian:lambda=4"], "lr": [0.001, 0.3]}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def toy(make_dataset):
    return make_dataset((16, 16, 16, 16))


def held_out_accuracies(folder):
    """By hand: the mean over the seeds of each combination, from the files of its runs."""
    found = {}
    for path in sorted(folder.glob("*/result.json")):
        found.setdefault(path.parent.name.rpartition("-s")[0], []).append(
            json.loads(path.read_text())["final_accuracy"]
        )
    return {name: sum(several) / len(several) for name, several in found.items()}


def test_the_best_mean_on_held_out_images_is_tested(toy, tmp_path):
    chosen = moca.compare(**SWEEP, data=toy, seeds=2, choose="0.25:seeds=3", out="c")
    means = held_out_accuracies(tmp_path / "c" / "choosing")
    assert len(means) == 6
    wanted = []
    for method in ("er_", "er+gaussian"):
        own = {name: mean for name, mean in means.items() if name.startswith(method)}
        assert len(own) == (2 if method == "er_" else 4)
        wanted.append(max(own, key=own.get))
    tested = {folder.parent.name for folder in (tmp_path / "c").glob("*/result.json")}
    assert tested == {f"{name}-s{seed}" for name in wanted for seed in (0, 1)}
    assert [folder_name(pick.label) for pick in chosen.picks] == wanted
    assert [len(pick.among) for pick in chosen.picks] == [2, 4]
    for pick in chosen.picks:
        for label, mean in pick.among.items():
            assert mean == pytest.approx(means[folder_name(label)])
    assert {r.settings.validation for r in chosen.results} == {0.0}
    assert {r.settings.validation for r in chosen.choosing.results} == {0.25}
    assert {r.settings.seed.seed for r in chosen.choosing.results} == {1000, 1001, 1002}


def test_a_chosen_run_equals_the_same_run_alone(toy, tmp_path):
    settings = TINY | {"lr": [0.01, 0.3]}
    chosen = moca.compare(**settings, data=toy, choose=0.25, out="c")
    (result,) = chosen.results
    alone = moca.run(**TINY | {"lr": result.settings.lr}, data=toy, out="alone", keep_model=False)
    assert_same_run(result.folder, alone.folder)


def test_the_test_images_play_no_part(toy):
    """With other test images everything up to the choice is the same, number by number."""
    images = torch.zeros_like(toy.test.images)
    blind = replace(toy, test=Split(images, toy.test.labels.flip(0)))
    one, other = (moca.compare(**SWEEP, data=data, choose=0.25, out=name) for data, name in ((toy, "a"), (blind, "b")))
    assert one.picks == other.picks
    for mine, theirs in zip(one.choosing.results, other.choosing.results, strict=True):
        assert_same_run(mine.folder, theirs.folder)
    assert one.results[0].accuracy_matrix != other.results[0].accuracy_matrix


def test_the_same_call_resumes_and_then_does_nothing(toy, tmp_path):
    class Impatient(Watcher):
        def task(self, record):
            signal.raise_signal(signal.SIGINT)

    settings = SWEEP | {"perturb": "none"}
    whole = moca.compare(**settings, data=toy, seeds=2, choose=0.25, out="whole")
    with pytest.raises(Interrupted, match="the same comparison with out=half continues it"):
        moca.compare(**settings, data=toy, seeds=2, choose=0.25, out="half", watch=Impatient())
    assert not list((tmp_path / "half").glob("*/result.json")), "nothing is tested before all have been tried"
    resumed = moca.compare(**settings, data=toy, seeds=2, choose=0.25, out="half")
    assert resumed.picks == whole.picks
    for mine, theirs in zip(resumed.results, whole.results, strict=True):
        assert_same_run(mine.folder, theirs.folder)
    written = {path: path.stat().st_mtime_ns for path in (tmp_path / "half").rglob("steps.jsonl")}
    again = moca.compare(**settings, data=toy, seeds=2, choose=0.25, out="half")
    assert again.cost is None and again.picks == whole.picks
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "half").rglob("steps.jsonl")} == written
    (tmp_path / "half" / "chosen.json").unlink()  # as after the power has failed while the best were tested
    assert moca.compare(**settings, data=toy, seeds=2, choose=0.25, out="half").picks == whole.picks


def test_more_seeds_can_be_added(toy, tmp_path):
    settings = SWEEP | {"perturb": "none"}
    moca.compare(**settings, data=toy, seeds=1, choose="0.25:seeds=2", out="c")
    more = moca.compare(**settings, data=toy, seeds=3, choose="0.25:seeds=2", out="c")
    assert [r.settings.seed.seed for r in more.results] == [0, 1, 2]
    assert more.choosing.cost is None


def reverse_the_choice(folder):
    """Make the combination that was chosen the worst on held-out images, as other seeds might."""
    (entry,) = json.loads((folder / "chosen.json").read_text())
    for path in folder.glob(f"choosing/{folder_name(entry['chosen'])}-s*/result.json"):
        result = json.loads(path.read_text())
        nothing = {"accuracy_matrix": [[0.0] * len(row) for row in result["accuracy_matrix"]], "final_accuracy": 0.0}
        path.write_text(json.dumps(result | nothing))
    return entry["chosen"]


def test_a_choice_that_changes_after_testing_is_said_to(toy, tmp_path):
    folder, settings = tmp_path / "c", TINY | {"lr": [0.1, 0.2], "data": toy, "choose": "0.25:seeds=1", "out": "c"}
    first = moca.compare(**settings, seeds=2)
    assert not first.picks[0].tested_before and first.told.startswith("Chosen before testing.")
    old = reverse_the_choice(folder)
    (new,) = {"er lr=0.1", "er lr=0.2"} - {old}
    words = f"Not all was chosen before testing: the choice changed from {old}, tested with 2 seeds, to {new}. For each"
    for seeds in (3, 3):
        changed = moca.compare(**settings, seeds=seeds)
        assert [(pick.label, pick.tested_before) for pick in changed.picks] == [(new, {old: [0, 1]})]
        assert changed.told.startswith(words) and "played no part" not in changed.told
        assert told_in(folder) == changed.told
    loaded = Comparison.load(folder)
    tested = next(setting for setting in loaded.settings if not setting.held_out)
    assert [row.label for row in tested.rows] == [new], "a rejected setting does not count as a chosen one"
    left_out = [f"{folder}/{folder_name(old)}-s{seed}: tested, but no longer chosen" for seed in (0, 1)]
    assert loaded.left_out == left_out == Comparison.load(tmp_path).left_out
    assert len(Comparison.load(folder / f"{folder_name(old)}-s0").results) == 1, "it was asked for by name"
    for run in folder.glob(f"{folder_name(old)}-s*"):
        shutil.rmtree(run)
    assert moca.compare(**settings, seeds=3).told == changed.told, "also once its runs are gone"


def test_what_was_tested_before_has_the_whole_name(tmp_path):
    """The weights of runs/er-s1 are others than those of runs/er, though the one name begins with the other."""
    labels = ["er model=pretrained:weights=runs/er", "er model=pretrained:weights=runs/er-s1"]
    (tmp_path / folder_name(f"{labels[1]}-s0")).mkdir()
    (tmp_path / folder_name(f"{labels[1]}-s0") / "result.json").touch()
    among = dict.fromkeys(labels, 0.5)
    first, second = with_history([Pick(label, among) for label in labels], tmp_path)
    assert first.tested_before == {labels[1]: [0]}
    assert second.tested_before == {}


def test_what_was_chosen_and_what_was_all_tested_do_not_mix(toy, tmp_path):
    settings = TINY | {"lr": [0.1, 0.2], "data": "digits"}
    moca.compare(**settings, choose="0.25:seeds=1", out="chosen")
    with pytest.raises(MocaError, match=r"the settings in 'chosen' were chosen with choose=0.25:seeds=1; give it ag"):
        moca.compare(**settings, out="chosen")
    (tmp_path / "chosen" / "compare.json").unlink()
    with pytest.raises(MocaError, match=r"were chosen with choose=0.25; give it again, or choose another folder with"):
        moca.compare(**settings, out="chosen")
    moca.compare(**settings | {"lr": 0.1}, out="tested")
    with pytest.raises(
        MocaError, match=r"the runs in 'tested' were tested without choose=, .* another folder with out"
    ):
        moca.compare(**settings, choose=0.25, out="tested")
    assert not (tmp_path / "tested" / "choosing").exists()


def test_what_is_chosen_among(make_dataset):
    settings = TINY | {
        "data": make_dataset(),
        "learner": ["er", "derpp:alpha=0.1", "derpp:alpha=0.5"],
        "memory": [5, 9],
    }
    labels = methods(plan(settings | {"lr": [0.1, 0.2]}, [0, 1], Path("c")))
    assert [len(several) for several in labels] == [2, 4, 2, 4], "options and lr, and not the size of the memory"
    assert set(labels[1]) == {f"derpp:alpha={a} lr={lr} memory=5" for a in (0.1, 0.5) for lr in (0.1, 0.2)}


def test_the_best_one():
    assert best(["a", "b", "c"], {"a": 0.5, "b": 0.7, "c": 0.7}) == Pick("b", {"a": 0.5, "b": 0.7, "c": 0.7})
    assert best(["a", "b"], {"a": math.nan, "b": 0.1}).label == "b", "one that did not finish is not chosen"
    assert best(["a", "b"], {"a": math.nan, "b": math.nan}) is None
    assert best(["a"], {}) == Pick("a", {}), "there is nothing to choose"
    assert _picked(Pick("a", {})) == "a had one combination, so nothing was chosen."


def test_a_combination_counts_with_all_of_its_seeds_only(toy, tmp_path):
    """One diverges: it stands in the table, and is not chosen."""
    chosen = moca.compare(**TINY | {"lr": [0.1, 1e30]}, data=toy, choose=0.25, out="c")
    assert [r.status for r in chosen.choosing.results] == ["finished", "diverged"]
    assert [pick.label for pick in chosen.picks] == ["er lr=0.1"]
    assert "best of 2, 1 of which did not finish" in chosen.told
    with pytest.raises(MocaError, match=r"nothing can be chosen: no combination finished .*; see d/choosing"):
        moca.compare(**TINY | {"lr": [1e29, 1e30]}, data=toy, choose=0.25, out="d")


def test_seeds_to_choose_with_are_not_those_to_test_with():
    assert seeds_apart(3, [0, 1]) == [1000, 1001, 1002]
    assert seeds_apart(3, [5, 1000, 1002]) == [1001, 1003, 1004]


def test_invalid_requests_are_refused(toy):
    def said(**settings):
        with pytest.raises(MocaError) as error:
            moca.compare(**{"data": toy, "choose": 0.25, "out": "c"} | TINY | settings)
        assert "\n" not in str(error.value)
        return str(error.value)

    assert "leave out validation=" in said(validation=0.1, lr=[0.1, 0.2])
    assert "needs several values to choose among" in said(perturb=["none", "vt"])
    assert "a stream has its own tasks" in said(data=moca.class_incremental(toy, tasks=2), lr=[0.1, 0.2])
    assert "choose.share = '1.5'" in said(choose=1.5, lr=[0.1, 0.2])
    assert "choose.share" in said(choose="validation", lr=[0.1, 0.2])
    assert "unknown option 'seed' of choosing; did you mean 'seeds'?" in said(choose="0.1:seed=2", lr=[0.1, 0.2])


def test_the_command_and_its_report(tmp_path, capsys):
    small = ["--tasks", "2", "--epochs", "1", "--model", "mlp:width=4,depth=1", "--threads", "1", "--device", "cpu"]
    with pytest.raises(SystemExit) as ended:
        cli.main(["compare", *small, "--lr", "0.01", "0.3", "--seeds", "1", "--choose", "0.2", "--out", "c"])
    said = capsys.readouterr().out
    assert not ended.value.code
    assert "is the best of 2" in " ".join(said.split()) and said.index("Held-out training images:") < said.index(
        "Test images:"
    )
    assert "\nChoosing: 2 runs in " in said and "\nTesting: 1 run in " in said
    page = (tmp_path / "c" / "report.html").read_text()
    assert "Chosen before testing." in page and "20 % of the training images, held out, with seed 1000" in page
    (entry,) = json.loads((tmp_path / "c" / "chosen.json").read_text())
    assert entry["seeds"] == [1000] and entry["tested_with_seeds"] == [0] and len(entry["among"]) == 2
    with pytest.raises(SystemExit):
        cli.main(["report", "c", "--out", "again.html"])
    told = [re.search("Chosen before testing.*too good", text)[0] for text in (page, Path("again.html").read_text())]
    assert told[0] == told[1]
    assert "chosen before testing" not in capsys.readouterr().out
    changed = reverse_the_choice(tmp_path / "c")
    with pytest.raises(SystemExit):
        cli.main(["resume", "c"])
    capsys.readouterr()
    with pytest.raises(SystemExit):
        cli.main(["report", "c", "--out", "again.html"])
    said = f"Not all of c was chosen before testing: the choice changed from {changed}, tested with 1 seed, to er lr="
    assert said in capsys.readouterr().out
    assert said.replace("of c ", "") in Path("again.html").read_text()
    assert "Summary, on the test images" in page
    assert "Summary, on a held-out share (0.2) of the training images" in page


def test_chosen_methods_are_the_same_fresh_and_loaded(toy):
    settings = TINY | {"perturb": ["none", "gaussian"], "lr": [0.1, 0.2]}
    chosen = moca.compare(**settings, data=toy, seeds=2, choose=0.25, out="c")
    plain, moved = (pick.label for pick in chosen.picks)
    for made in (chosen, Comparison.load("c")):
        (tested,) = (setting for setting in made.settings if not setting.held_out)
        row = next(row for row in tested.rows if row.perturbed)
        assert tested.chosen and tested.own_learner(row) is next(row for row in tested.rows if not row.perturbed)
        assert [row.label for row in tested.rows] == [plain, moved]
        assert made[moved].results == row.results, "and not those on held-out images"
    assert f"{moved} " in str(chosen) and f" {plain}: " in str(chosen)
    assert not any(setting.chosen for setting in chosen.choosing.settings)
