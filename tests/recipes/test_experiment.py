"""From cells to runs: each that can be run is a valid run, as the paper has it; cells of one experiment share it."""

import json
import shlex
from pathlib import Path

import pytest

from moca.data import catalogue
from moca.engine.folder import RunFolder
from moca.recipes.cells import cells
from moca.recipes.experiment import experiment, identity, rules, waits_for
from moca.recipes.selection import in_exhibits
from moca.settings import Run, validate

RESULTS = Path(__file__).parents[2] / "results"
RUNNABLE = [cell for cell in cells() if not waits_for(cell)]


def by_id(name):
    return next(cell for cell in cells() if cell.id == name)


def tasks_of(text):
    """50+2x10 is 50, 10, 10."""
    terms = [term.rpartition("x") for term in text.split("+")]
    return tuple(int(size) for times, _, size in terms for _ in range(int(times or 1)))


def test_every_cell_that_can_be_run_is_run_as_it_says():
    assert len(RUNNABLE) == 537
    for cell in RUNNABLE:
        run = experiment(cell).run
        assert None not in (run.model, run.tasks, run.class_order), cell.id
        assert not cell.tasks or run.tasks == tasks_of(cell.tasks), cell.id
        learner = "er" if cell.learner == "joint" else cell.learner  # its figures take a large memory for it
        perturb = "none" if cell.lam == "0.0" else cell.perturb
        assert (run.data, run.learner.name, run.perturb.name) == (cell.data, learner, perturb)
        assert run.memory.as_given() == cell.memory or not cell.memory
        assert (run.epochs == 1) == (cell.setting == "online")
        assert cell.head == run.head.name or cell.learner in ("pass", "icarl")
        natural = {"tinyimagenet": "wnids", "miniimagenet": "fewshot"}.get(cell.data, "natural")
        assert run.class_order == ("pass" if cell.setting == "proxy" else natural)
        if cell.lam and cell.perturb != "wap" and cell.lam != "0.0":
            assert run.perturb.lam == float(cell.lam), cell.id


def test_a_cell_that_cannot_be_run_says_why_and_never_is_an_accuracy_of_a_stored_set():
    waiting = [cell for cell in cells() if waits_for(cell)]
    assert len(waiting) == 19
    assert {cell.exhibit for cell in waiting if cell.metric.endswith("accuracy")} == {"table4", "table12"}


def test_the_published_wap_goes_with_gamma_100_and_lambda_1_5():
    wap = experiment(by_id("t1-offline-wap")).given.perturb
    assert wap.as_given() == "wap:lambda=1.5,step_size=100.0"
    assert experiment(by_id("f8-wap-lambda2.0")).given.perturb.as_given() == "wap:lambda=2.0,step_size=100.0"
    assert experiment(by_id("f8-wap-angle30")).given.perturb.as_given() == "wap:fixed_angle=30.0,step_size=100.0"
    gammas = [experiment(cell).run.perturb.step_size for cell in in_exhibits(["table8"])]
    assert gammas == [1, 50, 100, 500, 100]
    assert experiment(by_id("t1-online-wap")).run.perturb.step_size == 10


def test_what_is_no_accuracy_is_recorded():
    fig1 = experiment(by_id("f1-er-wap-angle_old"))
    assert fig1.given.record == ("angles", "gradients")
    assert fig1.run.perturb.step_size == 50
    assert "--tasks 50,50" in fig1.command(3)
    assert fig1.command(3).endswith("--record angles,gradients --seeds 3")
    assert experiment(by_id("f12-run2-er-vmf-i1")).run.perturb.kappa == 1
    assert experiment(by_id("t13-wap-lambda2")).given.perturb.as_given() == "wap:lambda=2.0,step_size=100.0"
    assert identity(experiment(by_id("t13-wap-lambda0")).run) == identity(experiment(by_id("t1-offline-none")).run)


def test_official_passes_wherever_they_are_known():
    for cell in RUNNABLE:
        run = experiment(cell).run
        known = run.learner.make().official_passes(run.perturb.make()) is not None
        assert run.bn_passes == ("official" if known and cell.setting == "offline" else "clean"), cell.id


def test_cells_of_one_experiment_share_its_runs():
    assert len({identity(experiment(cell).run) for cell in RUNNABLE}) == 276
    same = ["t1-offline-wap", "t2-cifar100-er-wap-m500", "t9-cifar100-er-wap-cosine-m500", "f8-wap-lambda1.5"]
    same += [f"f10-cifar100-wap-k{k}" for k in range(1, 6)]
    assert len({identity(experiment(by_id(name)).run) for name in same}) == 1
    assert identity(experiment(by_id("t2-cifar100-er-wap-m200")).run) != identity(experiment(by_id(same[0])).run)


def test_every_rule_has_a_reason_and_fits_a_cell():
    facts = [cell.facts for cell in cells()]
    for rule in rules():
        assert rule["why"]
        assert set(rule) <= {"where", "why", "run", "learner", "perturb", "waits"}
        assert all(any(fact.get(name) for fact in facts) for name in rule.get("where", {})), rule


@pytest.mark.parametrize(
    "name", ["t1-offline-wap", "t3-cifar10-er-wap-m20", "t4-cifar100-pass-vt-p20", "t1-proxy-none"]
)
def test_the_command_means_the_same_run(name):
    one = experiment(by_id(name))
    words = shlex.split(one.command(3))
    assert words[:2] == ["moca", "compare"]
    assert words[-2:] == ["--seeds", "3"]
    options = {word[2:].replace("-", "_"): value for word, value in zip(words[2:-2:2], words[3:-2:2], strict=True)}
    assert validate(Run, options) == one.given


def test_steps_of_a_run():
    assert experiment(by_id("t1-offline-none")).steps == 5 * 313 * 50
    assert experiment(by_id("t3-cifar100-er-none-m20")).steps == 5000


def test_a_stored_run_is_the_same_wherever_and_however_often_it_was_looked_at():
    stored = json.loads((RESULTS / "cifar100_official/er-s0/settings.json").read_text())
    wanted = identity(experiment(by_id("t1-offline-none")).run)
    assert "arrival" not in stored  # written before there was such a setting
    assert identity(validate(Run, stored)) == wanted
    elsewhere = {
        "seed": 7,
        "device": "cuda",
        "data_dir": "/data",
        "threads": 3,
        "precision": "bf16",
        "evaluate_every": 9,
    }
    elsewhere |= {"data": "/mnt/cifar100", "protocol": "offline", "execution": "eager"}
    assert identity(validate(Run, stored | elsewhere)) == wanted
    others = [{"lr": 0.2}, {"memory": 200}, {"perturb": "vt"}, {"protocol": "online"}, {"bn_passes": "clean"}]
    for other in [*others, {"validation": 0.1}, {"class_order": "random"}, {"short_batch": "perturb"}]:
        assert identity(validate(Run, stored | other)) != wanted, other


def test_the_first_protocol_is_the_one_that_is_left_out():
    first = {name: next(iter(catalogue.known(name).protocols)) for name in ("cifar10", "cifar100", "tinyimagenet")}
    assert set(first.values()) == {"offline"}
    kept = RunFolder(RESULTS / "cifar100_official/er-s0").settings()
    assert kept.protocol is None
