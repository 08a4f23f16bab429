"""What is read from the files of parts is what their classes say."""

import json
import subprocess
import sys

import pytest

from moca.parts import ENCODERS, LEARNERS, PERTURBATIONS
from moca.settings import Run, validate
from moca.settings.choice import options_of
from moca.settings.declared import declared_in, unknown_settings

PARTS = [(kind, name) for kind in (LEARNERS, PERTURBATIONS, ENCODERS) for name in kind.built_in]


@pytest.mark.parametrize(("kind", "name"), PARTS, ids=[name for _, name in PARTS])
def test_every_option_of_a_part_is_found_in_its_file(kind, name):
    fields = options_of(kind.find(name), name).model_fields
    options = {spelt for key, field in fields.items() for spelt in (key, field.alias) if spelt} - {"name"}
    assert options <= declared_in(kind.built_in[name])


def test_no_option_of_an_unrelated_part_is():
    assert not declared_in(LEARNERS.built_in["er"]) & {"alpha", "beta", "lambda", "steps"}
    assert not declared_in(PERTURBATIONS.built_in["wap"]) & {"kappa", "adjust", "passes"}


def test_a_saved_run_has_none_that_is_unknown_and_others_are_named():
    saved = validate(Run, {"learner": "bfp:alpha=1", "perturb": "doa_new", "model": "mlp"}).model_dump(by_alias=True)
    saved = json.loads(json.dumps(saved, default=str))
    assert unknown_settings(saved) == []
    strange = saved | {"warp": 9, "learner": saved["learner"] | {"kappa": 1}, "model": saved["model"] | {"hight": 1}}
    assert unknown_settings(strange) == ["learner.kappa", "model.hight", "warp"]
    mine = {"learner": {"name": "er", "own": True, "kappa": 1}, "perturb": {"name": "mine.Move", "strength": 2}}
    assert unknown_settings(mine) == [], "nothing is known of a part that is not built in"


def test_this_needs_no_torch():
    code = (
        "import sys; from moca.settings.declared import unknown_settings\n"
        "print(unknown_settings({'learner': {'name': 'bfp', 'kappa': 1}}), 'torch' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == "['learner.kappa'] False\n"
