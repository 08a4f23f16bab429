"""The paper's order of methods against paired seeds, in closed form."""

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
from scipy.stats import t as student

from moca.recipes.cells import cells
from moca.recipes.claims import Claim, claims, rows
from moca.recipes.matching import Entry

PLAIN = next(cell for cell in cells() if cell.id == "t1-offline-none")


def entry(perturb, paper, accuracies, **others):
    results = [
        SimpleNamespace(
            finished=value is not None,
            settings=SimpleNamespace(seed=seed),
            numbers=lambda value=value: {"final_accuracy": math.nan if value is None else value / 100},
        )
        for seed, value in enumerate(accuracies)
    ]
    return Entry(replace(PLAIN, perturb=perturb, value=paper, **others), None, "", tuple(results))


def test_differences_are_of_seeds_that_both_finished():
    claim = Claim(entry("wap", 41, [35, None, 37, 40]), entry("none", 31, [30, 31, 35]))
    assert claim.differences == pytest.approx([5, 2])
    assert claim.paper == 10


def test_p_is_that_of_a_paired_t_test():
    claim = Claim(entry("wap", 41, [35, 34, 37]), entry("none", 31, [30, 31, 35]))  # differences 5, 3, 2
    mean, std = 10 / 3, math.sqrt(7 / 3)
    assert claim.p == pytest.approx(student.sf(mean / (std / math.sqrt(3)), df=2))
    assert claim.verdict == "holds"


@pytest.mark.parametrize(
    ("ours", "verdict"),
    [
        ([40, 42, 45], "holds"),
        ([31, 31, 35.1], "same direction, may be chance"),
        ([32], "same direction, may be chance"),
        ([29, 32, 35], "does not show"),
        ([20, 22, 24], "the other way round"),
    ],
)
def test_verdicts(ours, verdict):
    assert Claim(entry("wap", 41, ours), entry("none", 31, [30, 31, 35])).verdict == verdict


def test_claims_are_pairs_that_differ_in_the_perturbation_alone():
    plain, noise, wap = entry("none", 31, [30]), entry("gaussian", 37, [33]), entry("wap", 41, [34])
    elsewhere = entry("wap", 50, [60], memory="2000")
    below, doubtful = entry("doa_old", 30, [40]), entry("vt", 50, [60], status="doubtful")
    found = claims([plain, noise, wap, elsewhere, below, doubtful])
    told = {(claim.better.cell.perturb, claim.worse.cell.perturb, claim.paper) for claim in found}
    assert told == {("gaussian", "none", 6), ("wap", "none", 10), ("wap", "gaussian", 4)}
    assert all(claim.better is not elsewhere for claim in found)


def test_only_what_was_measured_is_shown():
    plain, wap = entry("none", 31, [30, 32]), entry("wap", 41, [34, 33])
    _, shown = rows([Claim(wap, plain), Claim(entry("vt", 40, []), plain)])
    assert shown == [
        ["table1 offline cifar100 m500", "er+wap over er", "+10.00", "+2.50 ± 2.12", "2", "0.172", shown[0][-1]]
    ]
