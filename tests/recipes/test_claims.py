"""The paper's order of methods against paired seeds, in closed form."""

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
from scipy.stats import t as student

from moca.recipes.cells import cells
from moca.recipes.claims import Claim, claims, rows
from moca.recipes.experiment import experiment
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
    cell = replace(PLAIN, perturb=perturb, value=paper, **others)
    return Entry(cell, experiment(cell), "", tuple(results))


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
        ([32], "same direction, not tested"),
        ([29], "other direction, not tested"),
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


def test_a_claim_that_stands_in_two_tables_counts_once():
    def table(name, wap):
        return entry("none", 31, [30, 31, 35], exhibit=name), entry("wap", wap, [35, 34, 37], exhibit=name)

    (claim,) = claims([*table("table1", 41), *table("table2", 40)])
    assert (claim.better.cell.exhibit, claim.paper) == ("table1", 10)
    assert claim.adjusted == claim.p, "it is the only one"


def test_p_is_corrected_for_all_claims_that_are_tested():
    plain, clear = entry("none", 31, [30, 31, 35]), entry("vt", 37, [35.0, 36.1, 40.2])
    weak, untested = entry("doa_old", 33, [31, 31, 38]), entry("vmf", 40, [36])
    found = claims([plain, clear, weak, untested])
    first, second = found[0].p, found[1].p
    assert [claim.adjusted for claim in found[:2]] == [2 * first, second] and first < second / 2
    assert math.isnan(found[2].adjusted) and not found[2].tested


def test_only_what_was_measured_is_shown():
    plain, wap = entry("none", 31, [30, 32]), entry("wap", 41, [34, 33])
    _, shown = rows([Claim(wap, plain, adjusted=0.5), Claim(entry("vt", 40, []), plain)])
    where = "table1 offline cifar100 m500"
    assert shown == [[where, "er+wap over er", "+10.00", "+2.50 ± 2.12", "2", "0.172", "0.500", shown[0][-1]]]
