"""A comparison that is gone on with by its folder alone: it has the runs that it was asked for, each as it would be."""

import json
import shutil
import signal

import pytest
import torch

import moca
from moca import MocaError, api
from moca.cli import main
from moca.engine import request
from moca.engine.folder import RunFolder
from moca.engine.listing import Listed, not_begun
from moca.engine.plan import plan
from moca.errors import Interrupted
from moca.perturb.gaussian import Gaussian
from moca.report.chosen import Chosen
from moca.settings import Choice, Run, validate
from tests.engine.test_compare import FAST, forget_times


class Impatient(moca.Watcher):
    def task(self, record):
        signal.raise_signal(signal.SIGINT)


def test_one_that_was_stopped_goes_on_by_its_folder_alone(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    arguments = FAST | {"perturb": ["none", "gaussian:lambda=0.5"], "seeds": [3, 5]}
    whole = moca.compare(**arguments, out="whole")
    with pytest.raises(Interrupted, match="stopped; moca resume half continues it"):
        moca.compare(**arguments, out="half", watch=Impatient())
    (begun,) = (tmp_path / "half").glob("*/settings.json")
    assert Listed.at(begun.parent).next == f"moca resume {tmp_path / 'half'}"
    assert len(not_begun(tmp_path / "half")) == 3
    with pytest.raises(
        MocaError, match=r"is not a run folder: .*; moca.resume_comparison\('half'\) resumes the comparison"
    ):
        moca.resume("half")
    with pytest.raises(SystemExit) as ended:
        main(["runs", "half"])
    assert "half, 1 stopped, 3 not begun: moca resume half\n" in capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        main(["resume", "half"])
    assert ended.value.code == 0
    assert "Report: half/report.html" in capsys.readouterr().out
    assert forget_times(moca.Comparison.load("half").results) == forget_times(moca.Comparison.load("whole").results)
    assert len(whole.results) == len(list((tmp_path / "half").glob("*/result.json"))) == 4
    assert not_begun(tmp_path / "half") == []


def test_a_run_that_only_lies_beside_them_goes_on_alone(tmp_path):
    moca.compare(**FAST, out=tmp_path / "runs")
    RunFolder.create(tmp_path / "runs" / "another", validate(Run, {})).release()
    assert Listed.at(tmp_path / "runs" / "another").next == f"moca resume {tmp_path / 'runs' / 'another'}"
    assert Listed.at(tmp_path / "runs" / "er-s0").comparison == tmp_path / "runs"


def test_more_was_asked_for_since(tmp_path):
    moca.compare(**FAST, perturb=["none", "vt"], out=tmp_path / "c")
    moca.compare(**FAST, perturb=["none", "vt", "gaussian"], seeds=2, jobs=1, out=tmp_path / "c")
    on = api.resume_comparison(tmp_path / "c")
    assert on.cost is None, "nothing was left to do"
    assert len(on.results) == 6
    assert json.loads((tmp_path / "c" / "compare.json").read_text())["options"]["jobs"] == 1


def test_less_is_asked_for_since_and_the_runs_that_are_too_many_are_removed(tmp_path):
    moca.compare(**FAST, seeds=2, out=tmp_path / "c")
    with pytest.raises(MocaError, match=r"not in this comparison \(1, such as er-s1\); .* remove their folders"):
        moca.compare(**FAST, seeds=1, out=tmp_path / "c")
    shutil.rmtree(tmp_path / "c" / "er-s1")
    assert not_begun(tmp_path / "c") == [tmp_path / "c" / "er-s1"], "it is still asked for"
    moca.compare(**FAST, seeds=1, out=tmp_path / "c")
    assert not_begun(tmp_path / "c") == []
    assert len(api.resume_comparison(tmp_path / "c").results) == 1


def test_what_was_asked_for_in_words_is_gone_once_an_object_is_added(tmp_path):
    moca.compare(**FAST, perturb=["none", "gaussian"], out=tmp_path / "c")

    class Mine(Gaussian):
        pass

    with pytest.raises(Interrupted, match="stopped; the same comparison with out="):
        moca.compare(**FAST, perturb=["none", "gaussian", Mine()], out=tmp_path / "c", watch=Impatient())
    assert not (tmp_path / "c" / "compare.json").exists()


def test_one_that_exists_cannot_be_placed_elsewhere(tmp_path, full_disk):
    old = tmp_path / "old"
    request.keep(old, {}, [])
    full_disk("compare.json")
    with pytest.raises(MocaError, match="cannot be written: No space left on device; choose another folder with out="):
        request.keep(tmp_path, {}, [])
    with pytest.raises(MocaError, match="cannot be written: No space left on device; fix that and resume"):
        request.keep(old, {}, [])


def test_the_folder_may_have_any_name(tmp_path):
    moca.compare(**FAST, out=tmp_path / request.CHOOSING)
    assert request.above(tmp_path / request.CHOOSING / "er-s0") == tmp_path / request.CHOOSING


def test_one_that_chooses_goes_on_with_both_parts(tmp_path):
    arguments = FAST | {"lr": [0.05, 0.1], "seeds": 1, "choose": "0.2:seeds=2"}
    whole = moca.compare(**arguments, out=tmp_path / "whole")
    with pytest.raises(Interrupted, match=r"moca resume .*half continues it"):
        moca.compare(**arguments, out=tmp_path / "half", watch=Impatient())
    (begun,) = (tmp_path / "half" / "choosing").glob("*/settings.json")
    assert Listed.at(begun.parent).next == f"moca resume {tmp_path / 'half'}"
    on = api.resume_comparison(tmp_path / "half")
    assert isinstance(on, Chosen)
    assert on.picks == whole.picks
    assert forget_times(on.results) == forget_times(whole.results)


ODD = {
    "tasks": [(4, 3, 3), 5],
    "class_order": tuple(range(9, -1, -1)),
    "record": ("angles", "lead"),
    "memory": [{"size": 3, "per": "class"}, "50:per=total"],
    "perturb": [{"name": "wap", "lambda": 0.5, "steps": 2}, "none"],
    "learner": ["er", "icarl"],
    "schedule": "steps:at=1,2",
    "replay_batch": [None, 16],
    "head": ["linear"],
    "augment": False,
    "evaluate_every": None,
    "arrival": "classes:blur=0.2,returns=0.1",
    "lr": 1e-3,
}


@pytest.mark.filterwarnings("ignore:icarl with wap is left out")
def test_every_form_of_a_setting_is_the_same_in_words(tmp_path):
    plans = plan(ODD, [0], tmp_path)
    words = json.loads(json.dumps(request.options(ODD, plans, [])))
    again = plan(words, [0], tmp_path)
    assert [p.folder for p in again] == [p.folder for p in plans]
    assert [p.settings for p in again] == [p.settings for p in plans]
    assert words["head"] == ["linear"], "a list of one stays a list: it is in the names of the runs"


def test_methods_are_the_same_in_words(tmp_path):
    settings = FAST | {"methods": ["er", "er_ace+wap:lambda=0.5"]}
    settings.pop("perturb", None), settings.pop("learner", None)
    plans = plan(settings, [0, 1], tmp_path)
    words = json.loads(json.dumps(request.options(settings, plans, [])))
    assert words["methods"] == ["er", "er_ace+wap:lambda=0.5"]
    assert [p.settings for p in plan(words, [0, 1], tmp_path)] == [p.settings for p in plans]


def test_trackers_are_kept_and_objects_of_python_leave_no_words(tmp_path):
    (one,) = plan(FAST, [0], tmp_path)
    tracker = api.tracking.as_choice("tensorboard:every=10")
    assert isinstance(tracker, Choice)
    assert request.options(FAST, [one], [tracker], jobs=None)["track"] == ["tensorboard:every=10"]
    settings = FAST | {"model": torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 4))}
    moca.compare(**settings, out=tmp_path / "own")
    assert not (tmp_path / "own" / "compare.json").exists()


def test_what_is_no_comparison_is_told(tmp_path):
    with pytest.raises(
        MocaError, match=r"'.*nowhere' cannot be resumed as a comparison: it has no compare.json; a run is"
    ):
        moca.resume_comparison(tmp_path / "nowhere")


def test_a_damaged_file_is_one_line_and_of_nothing_that_came_about_none_is_left(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    RunFolder.create(tmp_path / "c" / "one", validate(Run, {}))
    (tmp_path / "c" / "compare.json").write_text("{")
    with pytest.raises(MocaError, match=r"compare.json is damaged; to resume, start the comparison again with out=.*c"):
        api.resume_comparison(tmp_path / "c")
    assert Listed.at(tmp_path / "c" / "one").next == f"moca resume {tmp_path / 'c' / 'one'}"
    with pytest.raises(MocaError, match="leave rules out"):
        moca.compare(learner="teacher", record="rules", epochs=1)
    assert not (tmp_path / "runs").exists()
