"""Missing runs are carried out, once, and kept as small files."""

import json
import signal
from dataclasses import replace

import pytest

from moca.data import catalogue
from moca.engine.folder import RunFolder
from moca.engine.result import Result
from moca.errors import MocaError
from moca.recipes import cells, experiment, missing
from moca.recipes.status import Standing
from tests.recipes.conftest import TINY


@pytest.fixture
def places(tmp_path):
    return tmp_path / "results", tmp_path / "work"


def standing(*folders, seeds=2):
    return Standing(cells.cells(), folders, seeds)


def test_runs_are_done_once_and_only_small_files_are_kept(tiny_paper, places):
    out, work = places
    wanted = standing(out).wanted(standing(out).entries)
    assert [(one.label.split()[1], seeds) for one, seeds in wanted] == [
        ("er", [0, 1]),
        ("er+gaussian:lambda=1.0", [0, 1]),
    ]
    outcome = missing.carry_out(wanted, out, work, "cpu", shown=False)
    assert [result.status for result in outcome.results] == ["finished"] * 4
    kept = {"settings.json", "tasks.jsonl", "result.json"}
    assert {path.name for path in out.rglob("*") if path.is_file()} == kept
    assert len(list(out.iterdir())) == 4
    assert all(path.name.startswith("digits_er") and path.name[-3:] in ("-s0", "-s1") for path in out.iterdir())
    done = standing(out)
    assert done.wanted(done.entries) == []
    plain, moved, curve, angle = done.entries
    kept = [Result.load(path) for path in sorted(out.glob("digits_er_*"))]
    assert plain.values == [100 * result.final_accuracy for result in kept]
    assert curve.values == [100 * result.accuracy_over_tasks[0] for result in kept]
    assert (plain.verdict, moved.verdict) == ("reproduced, above (n = 2)", "below (n = 2, quoted, not counted)")
    assert angle.verdict == "not yet runnable"
    (more,) = [seeds for one, seeds in standing(out, seeds=3).wanted(done.entries[:1])]
    assert more == [2]


def test_another_copy_of_a_known_set_is_not_held_against_the_paper(tiny_paper, places, monkeypatch):
    out, work = places
    wanted = standing(out).wanted(standing(out).entries)
    published = replace(catalogue.known("digits"), fingerprint="that of other images")
    monkeypatch.setattr(catalogue, "known", lambda name: published)
    with pytest.raises(MocaError, match=r"the stored copy of 'digits' is not .* as published"):
        missing.carry_out(wanted, out, work, "cpu", shown=False)
    assert not work.exists()


def test_what_ended_is_kept_at_once_and_the_rest_goes_on(tiny_paper, places, monkeypatch):
    out, work = places
    keep = missing.keep

    def then_stop(result, out):
        monkeypatch.setattr(missing, "keep", keep)
        keep(result, out)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(missing, "keep", then_stop)
    wanted = standing(out).wanted(standing(out).entries[:1])
    outcome = missing.carry_out(wanted, out, work, "cpu", shown=False)
    assert outcome.interrupted
    assert [path.name[-3:] for path in out.iterdir()] == ["-s0"]
    ((one, seeds),) = standing(out).wanted(standing(out).entries[:1])
    assert seeds == [1]
    assert not missing.carry_out([(one, seeds)], out, work, "cpu", shown=False).interrupted
    assert sorted(path.name[-3:] for path in out.iterdir()) == ["-s0", "-s1"]


def test_a_run_that_ended_in_a_call_that_was_killed_is_not_done_again(tiny_paper, places):
    out, work = places
    wanted = standing(out, seeds=1).wanted(standing(out).entries[:1])
    missing.carry_out(wanted, out, work, "cpu", shown=False)
    elsewhere = out.with_name("elsewhere")
    outcome = missing.carry_out([], elsewhere, work, "cpu")
    assert outcome.results == []
    assert [path.name for path in elsewhere.iterdir()] == [path.name for path in out.iterdir()]
    again = missing.carry_out(wanted, elsewhere, work, "cpu", shown=False)
    assert [result.images_this_time for result in again.results] == [0]


def test_runs_of_other_tables_may_lie_beside(tiny_paper, places):
    out, work = places
    for entry in standing(out).entries[:2]:
        outcome = missing.carry_out([(entry.experiment, [0])], out, work, "cpu", shown=False)
        assert [result.status for result in outcome.results] == ["finished"]
    assert len(list(out.iterdir())) == 2


def test_what_is_no_accuracy_is_read_from_runs_that_recorded_it(tiny_paper, places, monkeypatch):
    out, work = places
    plain, angle = tiny_paper[0], tiny_paper[3]
    told = (plain, angle, replace(angle, id="score", metric="angular_fisher"), replace(angle, id="sv", metric="sv_2"))
    rules = ({"run": TINY}, {"where": {"exhibit": "fig1"}, "run": {"record": "angles,gradients,weights"}})
    monkeypatch.setattr(cells, "cells", lambda: told)
    monkeypatch.setattr(experiment, "rules", lambda: rules)
    before = standing(out, seeds=1)
    missing.carry_out([(before.entries[0].experiment, [0])], out, work, "cpu", shown=False)
    half = standing(out, seeds=1)
    assert [len(entry.values) for entry in half.entries] == [1, 0, 0, 0]
    ((one, seeds),) = half.wanted(half.entries)
    assert (one.given.record, seeds) == (("angles", "gradients", "weights"), [0])
    missing.carry_out([(one, seeds)], out, work, "cpu", shown=False)
    done = standing(out, seeds=1)
    assert done.wanted(done.entries) == []
    (written,) = out.glob("*/analysis.json")
    kept = json.loads(written.read_text())["analyses"]
    assert [entry.values for entry in done.entries[1:]] == [
        [kept["angle_deviation"]["numbers"]["old classes, training (degrees)"]],
        [kept["angular_fisher_score"]["numbers"]["test, raw features"]],
        [kept["gradient_spectrum"]["plots"]["singular_values"]["series"]["all rows"][1]],
    ]


def test_a_run_that_lacks_what_is_to_be_recorded_is_missing_and_its_cell_filled(tiny_paper, places):
    out, work = places
    missing.carry_out(standing(out, seeds=1).wanted(standing(out).entries[:1]), out, work, "cpu", shown=False)
    filled = standing(out, work, seeds=1)
    assert len(filled.entries[0].values) == 1 and filled.wanted(filled.entries[:1]) == []
    wanted = filled.wanted(filled.entries[:1], ["lead", "perturbation"])
    assert [seeds for _, seeds in wanted] == [[0]]
    outcome = missing.carry_out(wanted, out, work, "cpu", shown=False)
    assert [result.status for result in outcome.results] == ["finished"], "beside the run that is there"
    done = standing(out, work, seeds=1)
    assert done.wanted(done.entries[:1], ["perturbation", "lead"]) == [], "though it has no perturbation"
    assert done.wanted(done.entries[:1], ["angles"]) and not done.wanted(done.entries[:1])
    assert [result.settings.record for result in done.entries[0].results] == [("perturbation", "lead")]
    assert done.entries[0].values == filled.entries[0].values


def test_a_model_is_analysed_by_one_of_the_processes_that_share_the_runs(tiny_paper, places, monkeypatch):
    out, work = places
    analysed, other = [], []

    def analyse(result, device):
        """Meanwhile another process begins with the next one."""
        analysed.append(result.settings.seed.seed)
        other.append(RunFolder(result.folder.with_name(result.folder.name.replace("-s0", "-s1"))))
        other[0].claim()

    monkeypatch.setattr(missing, "analyse", analyse)
    missing.carry_out(standing(out).wanted(standing(out).entries[:1], ["weights"]), out, work, "cpu", shown=False)
    assert analysed == [0]
    other[0].release()
    assert not list(work.rglob("lock"))
