"""Methods on equal footing: what runs recorded under every rule of BatchNorm say of their order."""

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
from scipy.stats import t as student

from moca.engine.folder import RunFolder
from moca.measures.analysis import Analysis, Axis, Plot, write
from moca.measures.record.rules import NAME
from moca.recipes.cells import cells
from moca.recipes.equal_footing import rows
from moca.recipes.matching import Entry

PLAIN = next(cell for cell in cells() if cell.id == "t1-offline-none")


@pytest.fixture
def entry(tmp_path):
    """A cell and its runs, of which each was tested with these final accuracies, by its own statistics and by b."""

    def made(perturb, tested, **others):
        results = []
        for seed, under in enumerate(tested):
            folder = tmp_path / f"{perturb}-{len(list(tmp_path.iterdir()))}"
            folder.mkdir()
            if under:
                series = {"own": [0.0, under[0]], "n": [0.0, 1.0], "b": [0.0, under[1]]}
                write(
                    RunFolder(folder), {NAME: Analysis("", "", {}, {NAME: Plot("lines", Axis(""), Axis(""), series)})}
                )
            results.append(SimpleNamespace(finished=True, settings=SimpleNamespace(seed=seed), folder=folder))
        return Entry(replace(PLAIN, perturb=perturb, **others), None, "", tuple(results))

    return made


def test_gains_are_over_the_own_learner_by_the_same_seeds(entry):
    plain = entry("none", [(30, 33), (32, 35), (31, 36)], value=31.0)
    wap = entry("wap", [(25, 38), (26, 38), None], value=41.0)
    other = entry("wap", [(20, 30)], learner="er_ace", value=28.0)
    unrecorded = entry("vt", [None, None])
    where = "offline cifar100 m500"
    _, found = rows(
        [plain, wap, other, unrecorded, replace(wap, cell=replace(wap.cell, status="doubtful", value=50.0))]
    )
    p = 2 * student.sf(4 / (math.sqrt(2) / math.sqrt(2)), df=1)
    assert found == [
        [where, "er", "31.00", "3", "31.00 ± 1.00", "34.67 ± 1.53", "", "", "\N{MINUS SIGN}6.33"],
        [
            where,
            "er+wap",
            "41.00",
            "2",
            "25.50 ± 0.71",
            "38.00 ± 0.00",
            "+4.00 ± 1.41",
            f"{p:.3f}",
            "\N{MINUS SIGN}3.00",
        ],
        [where, "er_ace+wap", "28.00", "1", "20.00", "30.00", "", "", "+2.00"],
    ]


def test_nothing_recorded_is_nothing_shown(entry):
    assert rows([entry("none", [None])])[1] == []
