"""Settings that version 0.1 wrote: the results in this repository can still be read, and mean the same."""

import json
from pathlib import Path

import pytest

from moca.engine.result import Result
from moca.settings import Run, validate
from moca.settings.migration import renewed

RESULTS = Path(__file__).parents[2] / "results"
FILES = sorted(RESULTS.rglob("settings.json"))


def old(**changes):
    return json.loads((RESULTS / "cifar100_table1" / "er-s0" / "settings.json").read_text()) | changes


def test_there_are_some():
    assert RESULTS / "cifar100_table1" / "er-s0" / "settings.json" in FILES


def test_settings_of_the_table_mean_what_they_meant():
    raw = old()
    before = json.dumps(raw)
    run = validate(Run, renewed(raw))
    assert json.dumps(raw) == before, "what was read stays as it is"
    assert (run.data, run.tasks, run.epochs, run.batch, run.lr) == ("cifar100", 5, 50, 32, 0.1)
    assert (run.memory.size, run.bn_passes, run.head.learnable) == (500, "official", True)
    assert (run.learner.name, run.learner.passes, run.perturb.name) == ("er", "separate", "none")
    assert (run.schedule.name, run.schedule.at, run.schedule.by, run.schedule.anew) == ("steps", (35, 45), 0.1, True)
    assert run.optimiser.name == "sgd"
    assert (run.optimiser.momentum, run.optimiser.weight_decay, run.optimiser.anew) == (0.0, 0.0, True)


def test_every_optimiser_setting_finds_its_place():
    run = validate(Run, renewed(old(momentum=0.9, weight_decay=1e-4, lr_milestones=[3], lr_factor=0.5)))
    assert (run.optimiser.momentum, run.optimiser.weight_decay) == (0.9, 1e-4)
    assert [run.schedule.factor(epoch, 5) for epoch in range(5)] == [1, 1, 1, 0.5, 0.5]


def test_no_drop_is_a_constant_rate():
    assert validate(Run, renewed(old(lr_milestones=[]))).schedule.name == "constant"


def test_one_pass_is_an_option_of_er():
    run = validate(Run, renewed(old(passes="concatenated", bn_passes="clean")))
    assert run.learner.passes == "concatenated"


def test_today_s_settings_stay_as_they_are():
    raw = Run().model_dump(mode="json", by_alias=True)
    assert renewed(raw) is raw


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.parent.relative_to(RESULTS)))
def test_every_kept_run_can_be_read(file):
    run = validate(Run, renewed(json.loads(file.read_text())))
    again = validate(Run, json.loads(run.model_dump_json(by_alias=True)))
    assert again == run
    if (file.parent / "result.json").is_file():
        assert Result.load(file.parent).settings == run
