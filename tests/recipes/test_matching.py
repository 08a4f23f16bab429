"""Runs that were done count wherever they lie."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from moca.recipes.cells import cells
from moca.recipes.experiment import experiment
from moca.recipes.matching import Entry, Found, entries, experiments
from moca.recipes.selection import in_exhibits

RESULTS = Path(__file__).parents[2] / "results"


def test_runs_of_earlier_days_fill_their_cells():
    found = Found(RESULTS)
    assert not found.unreadable
    by_id = {entry.cell.id: entry for entry in entries(cells(), found)}
    official = {"none": "er", "gaussian": "er+gaussian", "wap": "er+wap_lambda=1.5_step_size=100.0"}
    for method, name in official.items():
        one, two = by_id[f"t1-offline-{method}"], by_id[f"t2-cifar100-er-{method}-m500"]
        assert len(one.values) == 3
        assert one.values == two.values
        assert by_id[f"f10-cifar100-{method}-k5"].values == pytest.approx(one.values)
        assert {result.folder.parent.name for result in one.results} == {"paper"}  # run again, with more recorded
        first = [RESULTS / f"cifar100_official/{name}-s{seed}/result.json" for seed in range(3)]
        assert one.values == pytest.approx([100 * json.loads(file.read_text())["final_accuracy"] for file in first])
    assert all(
        len(by_id[f"t1-online-{way}"].values) == 3 for way in ("none", "gaussian", "vmf", "doa_old", "vt", "wap")
    )
    (pass5,) = by_id["t4-cifar100-pass-none-p5"].values
    assert round(pass5, 2) == 65.89
    assert "n = 1" in by_id["t4-cifar100-pass-none-p5"].verdict
    assert not by_id["t2-tinyimagenet-er-none-m200"].values


def test_only_seeds_that_are_not_there_are_missing(tmp_path):
    one = experiment(next(cell for cell in cells() if cell.id == "t1-offline-none"))
    assert Found(tmp_path).missing(one, 3) == [0, 1, 2]
    for seed in (1, 2):
        shutil.copytree(RESULTS / f"cifar100_official/er-s{seed}", tmp_path / f"deep/er-s{seed}")
    assert Found(tmp_path).missing(one, 3) == [0]
    assert Found(tmp_path).missing(one, 2) == []
    assert Found(tmp_path, tmp_path / "deep").missing(one, 5) == [0, 3, 4]


def test_a_run_that_diverged_gives_no_number_and_is_not_repeated(tmp_path):
    shutil.copytree(RESULTS / "cifar100_official/er-s0", tmp_path / "er-s0")
    result = json.loads((tmp_path / "er-s0/result.json").read_text())
    (tmp_path / "er-s0/result.json").write_text(json.dumps(result | {"status": "diverged"}))
    (cell,) = [cell for cell in cells() if cell.id == "t1-offline-none"]
    found = Found(tmp_path)
    (entry,) = entries([cell], found)
    assert (entry.values, entry.verdict, entry.reproduced) == ([], "diverged", None)
    assert found.missing(experiment(cell), 1) == []


def test_a_folder_that_cannot_be_read_is_told_and_left_out(tmp_path):
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd/settings.json").write_text('{"learner": "none such"}')
    (tmp_path / "odd/result.json").write_text("{}")
    (tmp_path / "result.json").write_text("{}")  # of something else
    found = Found(tmp_path, tmp_path / "not there")
    assert found.results == []
    assert len(found.unreadable) == 1


def test_the_verdict_says_what_weakens_it():
    cell = next(cell for cell in cells() if cell.id == "t2-cifar10-gem-none-m200")
    assert Entry(cell, experiment(cell), "").verdict == "to be run"
    assert Entry(cell, None, "no data").verdict == "not yet runnable"
    (entry,) = entries([next(cell for cell in cells() if cell.id == "f8-baseline")], Found(RESULTS))
    assert (entry.verdict, entry.reproduced) == ("reproduced (script, not counted)", True)
    assert replace(entry, cell=replace(entry.cell, value=20.0)).verdict == "reproduced, above (script, not counted)"


def test_experiments_in_the_order_of_their_first_cell():
    shown = entries(in_exhibits(["table9", "table11"]), Found())
    labels = [one.label for one in experiments(shown)]
    assert len(labels) == len(set(labels)) == 8
    assert labels[0] == "cifar100 er bn_passes=official memory=200 short_batch=skip"
