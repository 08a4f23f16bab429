"""Numbers that are no accuracies are read from what a run recorded."""

import math
from types import SimpleNamespace

import pytest

from moca.engine.folder import RunFolder
from moca.measures.analysis import Analysis, Axis, Plot, write
from moca.measures.record.gradients import ALL, OFFICIAL
from moca.recipes.metrics import has, value


def test_singular_values_are_those_that_the_official_scripts_take(tmp_path):
    result = SimpleNamespace(folder=tmp_path, settings=SimpleNamespace(record=("weights",)))
    assert math.isnan(value("sv_2", result)) and not has(result, ["gradients"]) and has(result, [])
    for series, second in (({ALL: [0.75, 0.25]}, 0.25), ({ALL: [0.75, 0.25], OFFICIAL: [0.5, 0.125]}, 0.125)):
        plot = Plot("lines", Axis("", [1, 2]), Axis(""), series)
        write(RunFolder(tmp_path), {"gradient_spectrum": Analysis("", "", {}, {"singular_values": plot})})
        assert value("sv_2", result) == second
        assert value("log_sv_2", result) == pytest.approx(math.log(second))
        assert math.isnan(value("log_sv_3", result)), "a network with fewer features has none"
    assert has(result, ["gradients"]) and not has(result, ["gradients", "angles"])
    assert not has(result, ["weights"]), "saved, but not analysed"
