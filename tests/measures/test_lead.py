"""The lead of new classes, recorded after every task."""

import pytest

import moca
from moca.measures.lead import MULTIPLES
from moca.measures.record.rules import final_accuracies

SMALL = {
    "epochs": 1,
    "batch": 100,
    "tasks": 3,
    "model": "convnet:width=4,features=8",
    "memory": 20,
    "device": "cpu",
    "threads": 1,
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs")
    recorded = moca.run(**SMALL, perturb="gaussian", record=["lead", "rules"], out=place / "recorded")
    adjusted = moca.run(**SMALL, perturb="gaussian", learner="er:adjust=1", record="lead", out=place / "adjusted")
    return recorded, adjusted


def over_tasks(run, of):
    return moca.analyse(run)["lead_over_tasks"].plots["lead_over_tasks"].series[of]


def test_it_is_what_the_run_and_the_rules_found_and_what_an_adjusted_run_finds(runs):
    recorded, adjusted = runs
    assert recorded.final_accuracy != adjusted.final_accuracy
    for run, multiple in ((recorded, 0), (adjusted, 1)):
        for other in runs:
            assert over_tasks(other, f"own, adjust={multiple}")[-1] == pytest.approx(100 * run.final_accuracy, abs=1e-3)
    rules = final_accuracies(moca.analyse(recorded).analyses)
    assert over_tasks(recorded, "b, adjust=0")[-1] == pytest.approx(rules["b"], abs=1e-3)
    assert rules["b"] != rules["n"]


def test_in_the_first_task_nothing_leads(runs):
    for rule in ("own", "b"):
        assert over_tasks(runs[0], f"{rule}, adjust=0")[0] == over_tasks(runs[0], f"{rule}, adjust=1")[0]


def test_the_numbers_are_of_the_last_curve(runs):
    found = moca.analyse(runs[0])["lead_over_tasks"]
    curve = found.plots["lead_at_the_end"].series["own"]
    assert (
        found.numbers["accuracy, at best (%), own"]
        == max(curve)
        == curve[MULTIPLES.index(found.numbers["best adjust, own"])]
    )
    assert found.numbers["accuracy, as trained (%), own"] == curve[MULTIPLES.index(0)]


def test_its_sentence_explains_the_names_of_its_series(runs):
    about = moca.analyse(runs[0])["lead_over_tasks"].about
    assert "as the run was tested (own), and with BatchNorm's statistics of replayed batches alone (b). Dashed" in about


@pytest.mark.parametrize(("learner", "taken"), [("er", 1), ("er:adjust=2.5", 2.5), ("er:adjust=auto", None)])
def test_the_mark_is_at_what_the_run_took(runs, tmp_path, learner, taken):
    """At 1, as much as the formula says, where it took nothing."""
    found = moca.analyse(
        runs[0] if learner == "er" else moca.run(**SMALL, learner=learner, record="lead", out=tmp_path / "run")
    )
    plots = found["lead_of_new_classes"].plots | found["lead_over_tasks"].plots
    marks = [plots[name].mark for name in ("lead_of_new_classes", "lead_at_the_end")]
    fitted = found["lead_of_new_classes"].numbers.get("adjust of the run")
    assert fitted not in (0, 1), "else this shows nothing"
    assert marks == pytest.approx([taken or fitted] * 2)


def test_nothing_of_distances(tmp_path):
    run = moca.run(**SMALL | {"tasks": 2}, learner="icarl", perturb="none", record="lead", out=tmp_path / "icarl")
    found = moca.analyse(run)
    assert not {"lead_over_tasks", "lead_of_new_classes"} & found.analyses.keys()
    why = "there is none: one task has all classes, or the learner predicts by distances"
    assert f"lead_of_new_classes: {why}" in found.missing


@pytest.mark.parametrize(("learner", "rules"), [("teacher", {"own"}), ("teacher:tested=student", {"own", "b"})])
def test_of_a_teacher_only_as_it_is_tested(tmp_path, learner, rules):
    """Other statistics of the student would change nothing of its teacher's test."""
    run = moca.run(**SMALL | {"tasks": 2}, learner=learner, record="lead", out=tmp_path / "run")
    assert moca.analyse(run)["lead_over_tasks"].plots["lead_at_the_end"].series.keys() == rules
