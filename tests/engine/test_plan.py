"""Which runs a comparison has, and what they are called."""

import pickle
import warnings

import pytest
from torch import nn

from moca import MocaError, class_incremental, load
from moca.engine import choose
from moca.engine.plan import in_short, label, plan
from moca.engine.request import options
from moca.errors import MocaWarning, Unfit
from moca.perturb.vt import VT
from moca.settings import Run, validate


def test_every_combination_with_every_seed(tmp_path):
    plans = plan({"learner": ["er", "derpp"], "memory": [10, 20], "lr": 0.3}, (0, 5), tmp_path)
    assert [p.label for p in plans] == [
        f"{learner} memory={memory}" for learner in ("er", "derpp") for memory in (10, 20) for _ in (0, 5)
    ]
    assert [p.settings.seed.seed for p in plans] == [0, 5] * 4
    assert [p.settings.memory.size for p in plans] == [10, 10, 20, 20] * 2
    assert all(p.settings.lr == 0.3 for p in plans)
    assert len({p.folder for p in plans}) == 8
    assert all(p.folder.parent == tmp_path for p in plans)


@pytest.mark.parametrize(
    ("settings", "labels"),
    [
        ({}, ["er"]),
        ({"learner": "er_ace", "perturb": "wap:lambda=1.5,steps=2"}, ["er_ace+wap:lambda=1.5,steps=2"]),
        ({"perturb": ["none", "gaussian", "gaussian:lambda=3"]}, ["er", "er+gaussian", "er+gaussian:lambda=3.0"]),
        ({"lr": [0.1, 0.2]}, ["er lr=0.1", "er lr=0.2"]),
        ({"learner": ["derpp:alpha=0.3"]}, ["derpp:alpha=0.3"]),
        ({"tasks": [2, 5], "epochs": [1]}, ["er epochs=1 tasks=2", "er epochs=1 tasks=5"]),
        ({"perturb": ["gaussian:lambda=1", "gaussian:lambda=2"]}, ["er+gaussian:lambda=1.0", "er+gaussian:lambda=2.0"]),
        ({"head": ["cosine:scale=1", "linear"]}, ["er head=cosine:scale=1.0", "er head=linear"]),
    ],
)
def test_labels_say_what_differs(tmp_path, settings, labels):
    plans = plan(settings, (0,), tmp_path)
    assert [p.label for p in plans] == labels
    for p in plans:
        assert all(c.isalnum() or c in "+=._-" for c in p.folder.name)


def test_a_run_that_goes_on_is_called_in_short():
    """Its settings leave nothing open, but most of them are what they would be anyway."""
    whole = validate(Run, {"learner": "derpp:alpha=0.1,beta=0.7", "perturb": "wap:lambda=2,steps=3"})
    read_back = validate(Run, whole.model_dump(mode="json", by_alias=True))
    assert in_short(read_back) == "derpp:beta=0.7+wap:steps=3"
    assert in_short(validate(Run, {})) == "er"


@pytest.mark.parametrize(
    ("settings", "seeds", "words"),
    [
        (
            {"perturb": ["gaussian", "gaussian:lambda=1"]},
            (0,),
            "'er.gaussian:lambda=1.0' are the same run with the recipe's defaults",
        ),
        ({}, (1, 1), "'er' with seed 1 is given twice"),
        ({}, (), "nothing to run: seeds is empty"),
        ({"perturb": []}, (0,), "nothing to run: perturb is empty"),
        ({"seed": 3}, (0,), "takes seeds="),
        ({"methods": ["er+wop"]}, (0,), "unknown perturbation 'wop'; did you mean 'wap'"),
        ({"methods": ["er,er+wap"]}, (0,), "unknown learner 'er,er'; moca compare takes several values, separated by"),
        ({"methods": ["er+wap+vt"]}, (0,), "a learner takes one perturbation"),
        ({"methods": ["er+"]}, (0,), "'er.' is not a method"),
        ({"methods": ["er"], "perturb": "wap"}, (0,), "leave out learner= and perturb="),
        ({"methods": [3]}, (0,), "a method is text such as"),
        ({"methods": ["er", "icarl+gaussian"]}, (0,), "'icarl' cannot take 'gaussian': its replayed samples"),
        ({"perturb": ["none", "gausian"]}, (0,), "did you mean 'gaussian'"),
        ({"learner": ["finetune", "lwf"], "perturb": "vt"}, (0,), "'finetune' cannot take 'vt': it replays nothing"),
    ],
)
def test_mistakes_are_found_before_anything_runs(tmp_path, settings, seeds, words):
    with pytest.raises(MocaError, match=words) as error:
        plan(settings, seeds, tmp_path)
    assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("learner", "perturb", "called"),
    [
        ("er", "none", "er"),
        ("er", "gaussian:lambda=0.5", "er+gaussian:lambda=0.5"),
        ("derpp:alpha=0.3", "vt:angle_cap=30", "derpp:alpha=0.3,beta=0.5+vt:lambda=2.0,angle_cap=30.0"),
    ],
)
def test_a_run_by_the_settings_of_another_is_not_called_by_all_of_them(learner, perturb, called):
    run = validate(Run, {"learner": learner, "perturb": perturb})
    assert str(label(validate(Run, run.model_dump(mode="json", by_alias=True)))) == called


@pytest.mark.parametrize("setting", ["data", "model"])
def test_objects_of_one_name_are_not_called_the_same_run(tmp_path, setting):
    stream = class_incremental(load("digits"), 5)
    several = {"data": [stream[:2], stream[:3]], "model": [nn.Flatten(), nn.Flatten()]}[setting]
    with pytest.raises(MocaError, match=f"two runs that differ would both be called 'er {setting}="):
        plan({setting: several}, (0,), tmp_path)
    with pytest.raises(MocaError, match="is given twice"):
        plan({setting: several[0]}, (0, 0), tmp_path)


@pytest.mark.parametrize("several", [[VT(), VT()], [VT, "vt"]])
def test_objects_that_a_name_leads_back_to_are_the_same_run(tmp_path, several):
    with pytest.raises(MocaError, match="is given twice"):
        plan({"perturb": several}, (0,), tmp_path)


def test_methods_are_pairs_of_learner_and_perturbation(tmp_path):
    methods = ["er", "er_ace+wap:lambda=0.5", "teacher:of=derpp+gaussian"]
    plans = plan({"data": "digits", "methods": methods, "lr": [0.1, 0.2]}, [0], tmp_path)
    found = [(p.settings.learner.name, p.settings.perturb.name, p.settings.lr) for p in plans]
    pairs = [("er", "none"), ("er_ace", "wap"), ("teacher", "gaussian")]
    assert found == [(*pair, lr) for pair in pairs for lr in (0.1, 0.2)]
    assert plans[2].label == "er_ace+wap:lambda=0.5 lr=0.1"
    assert plans[4].settings.learner.options["of"] == "derpp"


def test_a_learner_that_keeps_nothing_is_run_once_for_all_memories(tmp_path):
    def labels(**settings):
        return [p.label for p in plan(settings, (0, 1), tmp_path)]

    assert labels(methods=["er", "joint"], memory=[20, 50]) == [
        *["er memory=20"] * 2, *["er memory=50"] * 2, *["joint"] * 2
    ]  # fmt: skip
    assert labels(learner="joint", memory=[20, 50], lr=[0.1, 0.2]) == [*["joint lr=0.1"] * 2, *["joint lr=0.2"] * 2]
    one, other = (plan({"learner": "joint", "memory": sizes}, (0,), tmp_path)[0] for sizes in ([20, 50], [50, 20]))
    assert (one.folder, one.settings) == (other.folder, other.settings), "so that sizes can be added"
    for learner in ("joint", ["joint", "er"]):
        settings = {"learner": learner, "memory": [20, 50]}
        plans = plan(settings, (0,), tmp_path)
        again = plan(options(settings, plans, ()), (0,), tmp_path)
        assert [(p.label, p.settings) for p in again] == [(p.label, p.settings) for p in plans]


@pytest.mark.parametrize("place", ["", "choosing"])
def test_runs_that_an_older_moca_made_for_each_memory_stay_in_their_comparison(place, tmp_path):
    for folder in ("joint_memory=20-s0", "joint_memory=50-s0"):
        (tmp_path / place / folder).mkdir(parents=True)
        (tmp_path / place / folder / "settings.json").touch()

    def folders(learner, seeds):
        return [p.folder.name for p in plan({"learner": learner, "memory": [20, 50, 200]}, seeds, tmp_path)]

    assert folders("joint", (0, 1)) == [f"joint_memory={size}-s{seed}" for size in (20, 50) for seed in (0, 1)]
    assert folders("finetune", (0,)) == ["finetune-s0"]


def test_streams_may_have_names(tmp_path):
    stream = class_incremental(load("digits"), 5)
    one, other = stream[:2], stream[:3]
    one.name, other.name = "short", "long"
    assert [p.label for p in plan({"data": [one, other]}, (0,), tmp_path)] == ["er data=short", "er data=long"]


def test_a_pair_that_does_not_go_together_is_left_out_and_told_once(tmp_path):
    with pytest.warns(MocaWarning) as told:
        plans = plan({"learner": ["er", "finetune"], "perturb": ["none", "vt", "wap"]}, (0, 1), tmp_path)
    assert [p.label for p in plans[::2]] == ["er", "er+vt", "er+wap", "finetune"]
    assert [str(one.message) for one in told] == [
        "finetune with vt, wap is left out: it replays nothing, so there is nothing to move"
    ]


def test_it_is_told_once_where_values_are_chosen_first(tmp_path):
    settings = {"learner": ["er", "finetune"], "perturb": "vt", "lr": [0.1, 0.2]}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        plan(settings, (0,), tmp_path)
        choose.plan(settings, choose.asked(0.1), (0,), tmp_path)
    assert len(told) == 1


def test_a_refusal_reaches_another_process():
    """As where an estimator is tried with several options side by side."""
    with pytest.raises(Unfit) as error:
        validate(Run, {"learner": "finetune", "perturb": "vt"})
    again = pickle.loads(pickle.dumps(error.value))
    assert (str(again), again.learner, again.perturb) == (str(error.value), "finetune", "vt")
