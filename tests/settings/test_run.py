"""The settings of a run: defaults that the paper's numbers came from, and seeds by purpose."""

import subprocess
import sys

import pytest

from moca.settings import Run, Seeds, learners, models, perturb
from moca.settings.memory import Memory


def test_defaults():
    run = Run()
    assert (run.learner, run.perturb, run.head, run.model) == (
        learners.ER(), perturb.NoPerturbation(), models.Cosine(scale=1.0, learnable=True), None,
    )  # fmt: skip
    assert (run.batch, run.replay_batch, run.momentum, run.weight_decay) == (32, None, 0.0, 0.0)
    assert (run.passes, run.bn_passes) == ("separate", "clean")
    assert run.memory == Memory(size=200, per="total")


def test_perturbation_defaults_are_those_that_gave_the_numbers():
    assert all(cls().lam == 2.0 for cls in perturb.PERTURBATIONS[1:])
    assert perturb.Gaussian().unit
    assert (perturb.VMF().noise, perturb.VMF().sampler) == ("sample", "exact")
    assert (perturb.DOAOld().rate, perturb.DOANew().rate, perturb.DOAOld().site) == (0.5, 0.5, "feature")
    assert (perturb.VT().center, perturb.VT().momentum) == ("class", 0.9)
    wap = perturb.WAP()
    assert (wap.steps, wap.step_size, wap.relative, wap.radius, wap.rows, wap.labels) == (
        1, 10.0, True, None, "old", "batch",
    )  # fmt: skip
    assert all(cls().fixed_angle is None and cls().angle_cap is None for cls in perturb.PERTURBATIONS[1:])


@pytest.mark.parametrize("purpose", ["classes", "init", "data", "augment", "memory", "perturb"])
def test_a_purpose_may_have_its_own_seed(purpose):
    assert Seeds(seed=7).of(purpose) == 7
    own = Seeds(seed=7, **{purpose: 0})
    assert own.of(purpose) == 0
    assert all(own.of(p) == 7 for p in Seeds.model_fields if p not in ("seed", purpose))


def test_settings_need_no_torch():
    code = "import sys, moca.settings; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
