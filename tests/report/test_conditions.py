import shlex
from itertools import pairwise
from math import prod

import pytest
from torch import nn

from moca.api import RUNS
from moca.cli import app
from moca.cli.options import given
from moca.engine.plan import plan
from moca.report.conditions import command, run_command
from moca.report.conditions import sentences as sentences_of
from tests.report.made_results import comparison, result


def net(shape, layers: list[int] = [8, 4]):  # noqa: B006
    """An encoder with a list as an option, which cannot be hashed."""
    sizes = [prod(shape), *layers]
    return nn.Sequential(nn.Flatten(), *(nn.Linear(a, b) for a, b in pairwise(sizes)))


def sentences(made):
    (setting,) = made.settings
    return sentences_of(setting)


def results_of(folder, seeds=(0, 1), **settings):
    return [
        result(folder, [[0.0] * len(p.stream)] * 2, p.settings.seed, **_fields(p.settings))
        for p in plan(settings, seeds, RUNS)
    ]


def _fields(run):
    return {name: getattr(run, name) for name in type(run).model_fields if name != "seed"}


def made_by(line):
    """The settings of the runs that a command makes."""
    words = shlex.split(line)
    assert words[:2] == ["moca", "compare"]
    options = app.parse_args(words[1:])[1].arguments
    seeds, numbers = options.pop("seeds", None), options.pop("seed", None)
    return [p.settings for p in plan(given(options), numbers or range(seeds), RUNS)]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {
            "perturb": ["none", "wap:lambda=1.5"],
            "memory": ["30:per=class", "40"],
            "schedule": "steps:at=3,5",
            "optimiser": "adamw:weight_decay=0.1,beta1=0.8",
            "augment": False,
            "head": "cosine:scale=10",
        },
        {"model": ["tests.report.test_conditions.net", "tests.report.test_conditions.net:layers=2,3"]},
        {"learner": ["er:passes=concatenated", "er_ace:mask=official"], "tasks": "4,3,3", "short_batch": "skip"},
        # As they would be without the recipe of these images, which is to say otherwise than with it.
        {"memory": 200, "epochs": 1, "lr": 0.1, "head": "cosine", "perturb": ["vt", "gaussian:lambda=0.5"]},
    ],
)
def test_command_makes_the_same_runs(tmp_path, settings):
    results = results_of(tmp_path, **settings)
    assert made_by(command(results)) == [r.settings for r in results]


def test_command_of_a_run_makes_the_same_run(tmp_path):
    (one,) = results_of(tmp_path, seeds=(3,), perturb=["wap:lambda=1.5"], memory="30:per=class", augment=False)
    words = shlex.split(run_command(one))
    assert words[:2] == ["moca", "run"]
    options = given(app.parse_args(words[1:])[1].arguments)
    (made,) = plan({name: value for name, value in options.items() if name != "seed"}, [int(options["seed"])], RUNS)
    assert made.settings == one.settings


RECIPE = (
    "--memory 30 --tasks 5 --class-order natural --epochs 20 --batch 32 --lr 0.03 --optimiser sgd --schedule cosine "
    "--model convnet --head cosine:scale=10.0"
)
"""What is chosen for the digits."""


def test_command_names_seeds_that_do_not_count_from_zero(tmp_path):
    assert command(results_of(tmp_path, seeds=(3, 7))) == f"moca compare {RECIPE} --seed 3 7"


def test_no_command_for_runs_that_none_makes(tmp_path):
    results = results_of(tmp_path, perturb=["none", "vt"])
    assert command(results) == f"moca compare --perturb none vt:lambda=0.5 {RECIPE} --seeds 2"
    assert command(results[:-1]) is None
    assert command(results_of(tmp_path, seeds=["0:init=5"])) is None


def test_paragraph_names_what_was_compared(tmp_path):
    made = comparison(
        tmp_path,
        {
            "er memory=30": results_of(tmp_path, memory=30, epochs=4),
            "er memory=50": results_of(tmp_path, memory=50, epochs=4),
        },
    )
    assert sentences(made) == (
        "2 methods learn the classes of digits in 5 tasks, one after the other, with a memory of 30 or 50 samples, "
        "4 epochs a task and 2 seeds (0, 1). After each task the test images of every task are classified, all classes "
        "competing. Run on x86_64, 1 CPU thread (moca 0.1.0, PyTorch 2.8.0, Python 3.11.7)."
    )


def test_runs_that_shared_a_gpu_are_named_once(tmp_path):
    results = results_of(tmp_path, seeds=(0, 1, 2))
    for r, packed in zip(results, ({"packed": 2}, {"packed": 3}, {}), strict=True):
        r.environment = {"device": "H200", "moca": "1", "torch": "2", "python": "3"} | packed
    told = sentences(comparison(tmp_path, {"er": results}))
    assert told.endswith(" Run on H200 (moca 1, PyTorch 2, Python 3), up to 3 runs at a time.")


def test_seeds_of_their_own_are_named(tmp_path):
    def said(*seeds):
        return sentences(comparison(tmp_path, {"er": results_of(tmp_path, seeds=seeds)}))

    assert "3 seeds (0 to 2)." in said(2, 0, 1)
    assert "3 seeds (0:init=3, 1:init=3, 2:init=3)." in said("0:init=3", "1:init=3", "2:init=3")
    assert "one seed (0:init=3)." in said("0:init=3")


def test_without_replay_no_memory_is_named(tmp_path):
    made = comparison(tmp_path, {"finetune": results_of(tmp_path, learner="finetune", validation=0.1)})
    assert "memory" not in sentences(made)
    assert "a held-out share (0.1) of the training images" in sentences(made)


def test_the_memory_of_a_learner_that_draws_nothing_is_named(tmp_path):
    assert "with a memory of 30 samples" in sentences(
        comparison(tmp_path, {"gem": results_of(tmp_path, learner="gem")})
    )


def test_a_stream_that_is_no_clean_sequence_is_told_as_one(tmp_path):
    """The table of a long-tailed or blurred stream must not read as that of the usual one."""
    several = "classes:blur=0.5,returns=0.1,imbalance=0.02"
    said = sentences(comparison(tmp_path, {"er": [result(tmp_path, 0.5, arrival=several)]}))
    assert (
        ". The rarest class has 0.02 samples for one of the most frequent; 10 % of the samples of a class come in "
        "later tasks; boundaries are blurred, with a standard deviation of 0.5 tasks. After each task"
    ) in said
    said = sentences(comparison(tmp_path, {"er": [result(tmp_path, 0.5, arrival="domains")]}))
    assert ". Every task has other images for the same labels. After each task" in said
