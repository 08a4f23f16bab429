"""The settings of a run: defaults that the paper's numbers came from, and seeds by purpose."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from moca.errors import MocaError
from moca.learners.er import ER
from moca.parts import LEARNERS, PERTURBATIONS
from moca.perturb.none import Unmoved
from moca.settings import Run, Seeds, heads, optimisers, validate
from moca.settings.choice import options_of
from moca.settings.memory import Memory


def perturb(spec):
    return validate(Run, {"perturb": spec}).perturb


def test_defaults():
    run = Run()
    assert (run.learner, run.perturb, run.head, run.model) == (
        options_of(ER, "er")(name="er"),
        options_of(Unmoved, "none")(name="none"),
        heads.Cosine(scale=1.0, learnable=True),
        None,
    )
    assert run.optimiser == optimisers.SGD(momentum=0.0, weight_decay=0.0, nesterov=False, anew=True)
    assert run.schedule == optimisers.Constant(anew=True)
    assert (run.batch, run.replay_batch) == (32, None)
    assert (run.learner.passes, run.bn_passes, run.short_batch) == ("separate", "replay", "perturb")
    assert run.memory == Memory(size=200, per="total")


def test_perturbation_defaults_are_those_that_gave_the_numbers():
    moving = [perturb(name) for name in PERTURBATIONS.built_in if name != "none"]
    assert all(p.lam == 2.0 for p in moving)
    assert perturb("gaussian").unit
    assert (perturb("vmf").noise, perturb("vmf").sampler) == ("sample", "exact")
    assert (perturb("doa_old").rate, perturb("doa_new").rate, perturb("doa_old").site) == (0.5, 0.5, "feature")
    assert (perturb("vt").center, perturb("vt").momentum) == ("class", 0.9)
    wap = perturb("wap")
    assert (wap.steps, wap.step_size, wap.relative, wap.radius, wap.rows, wap.labels) == (
        1, 10.0, True, None, "old", "batch",
    )  # fmt: skip
    assert all(p.fixed_angle is None and p.angle_cap is None and p.cap == "exact" for p in moving)
    assert not perturb("none").options


def test_learner_defaults_are_those_that_gave_the_numbers():
    for name, options in {
        "derpp": {"alpha": 0.1, "beta": 0.5},
        "er": {"passes": "separate"},
        "er_ace": {"mask": "unseen"},
        "pass": {
            "rotations": True,
            "noise": "radius",
            "temperature": 0.1,
            "prototypes": 10.0,
            "distillation": 10.0,
        },
    }.items():
        assert validate(Run, {"learner": name}).learner.options == options | {"adjust": 0}


@pytest.mark.parametrize("purpose", ["classes", "init", "data", "augment", "memory", "perturb"])
def test_a_purpose_may_have_its_own_seed(purpose):
    assert Seeds(seed=7).of(purpose) == 7
    own = Seeds(seed=7, **{purpose: 0})
    assert own.of(purpose) == 0
    assert all(own.of(p) == 7 for p in Seeds.model_fields if p not in ("seed", purpose))


def test_settings_need_no_torch():
    code = "import sys, moca.settings; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_no_part_is_loaded_to_be_listed():
    code = (
        "import sys\nfrom moca.parts import KINDS\n"
        "lines = [kind.lines() for kind in KINDS.values()]\n"
        "sys.exit('torch' in sys.modules or not all(lines))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_recipe_is_one_that_a_run_takes():
    """What stands with a method is only read when that method meets its protocol: here all are read."""
    for name in LEARNERS.built_in:
        for recipe in LEARNERS.find(name).recipes.values():
            options = {key: value for key, value in recipe.items() if key in LEARNERS.find(name).options}
            settings = {key: value for key, value in recipe.items() if key not in options}
            run = validate(Run, {"learner": {"name": name, **options}, **settings})
            assert settings.keys() <= run.model_fields_set
            assert options.keys() <= run.learner.model_fields_set
    for name in PERTURBATIONS.built_in:
        for recipe in PERTURBATIONS.find(name).recipes.values():
            if name != "none":
                perturb({"name": name, **recipe})


def test_numbers_of_numpy_and_devices_of_torch():
    """As a loop over an array of sizes, or a network, has them."""
    run = validate(Run, {"memory": np.int64(20), "seed": np.int32(3), "device": torch.device("cuda", 1)})
    assert (run.memory, run.seed, run.device) == (Memory(size=20), Seeds(seed=3), "cuda:1")
    assert run == validate(Run, {"memory": 20, "seed": 3, "device": "cuda:1"})


def test_no_data_is_no_object_of_python():
    with pytest.raises(MocaError, match="data is empty; give the name of a data set"):
        validate(Run, {"data": None})
