import math
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from moca.report.page import render
from moca.report.significance import difference, holm, paired
from moca.report.tables import learners
from moca.report.verdict import verdict
from tests.report.made_results import comparison, result


def rows(tmp_path, ours, theirs, shift=0):
    first = [result(tmp_path, value, seed + shift) for seed, value in enumerate(theirs)]
    made = comparison(tmp_path, {"theirs": first, "ours": ours})
    return made["ours"], made["theirs"]


def test_shared_seeds_are_paired(tmp_path):
    ours, theirs = [0.70, 0.71, 0.75, 0.79], [0.60, 0.69, 0.70, 0.72]
    found = difference(*rows(tmp_path, ours, theirs))
    assert found.p == pytest.approx(stats.ttest_rel(ours, theirs).pvalue)
    assert (found.test, found.n, found.wins) == ("paired t", "4", 4)
    assert found.spread.mean == pytest.approx(np.mean(ours) - np.mean(theirs))


def test_one_sided_against_scipy():
    for values in ([0.1, 0.02, 0.05], [-0.1, -0.02, 0.05]):
        assert paired(values, above=True) == pytest.approx(stats.ttest_1samp(values, 0, alternative="greater").pvalue)
    assert math.isnan(paired([0.1], above=True)) and math.isnan(paired([0.1, 0.1]))


def test_a_seed_that_only_one_has_is_left_out_of_the_pairs(tmp_path):
    found = difference(*rows(tmp_path, [0.70, 0.71, 0.75, 0.1], [0.60, 0.69, 0.70]))
    assert found.p == pytest.approx(stats.ttest_rel([0.70, 0.71, 0.75], [0.60, 0.69, 0.70]).pvalue)
    assert found.n == "3"


def test_other_seeds_are_not_paired(tmp_path):
    ours, theirs = [0.70, 0.71, 0.75, 0.79], [0.60, 0.69, 0.70]
    found = difference(*rows(tmp_path, ours, theirs, shift=10))
    assert found.p == pytest.approx(stats.ttest_ind(ours, theirs, equal_var=False).pvalue)
    assert (found.test, found.n) == ("Welch t", "4 and 3")
    assert math.isnan(found.spread.std)


@pytest.mark.parametrize("seeds", [1, 2])
def test_other_seeds_without_spread_are_not_paired_either(tmp_path, seeds):
    found = difference(*rows(tmp_path, [0.7] * seeds, [0.6] * seeds, shift=10))
    assert (found.test, found.n, found.paired) == ("", f"{seeds} and {seeds}", False)
    assert found.spread.mean == pytest.approx(0.1)


@pytest.mark.parametrize("ours, theirs", [([0.7], [0.6]), ([0.7, 0.8], [0.6, 0.7]), ([], [0.6, 0.7])])
def test_nothing_to_test(tmp_path, ours, theirs):
    """One seed; differences that are all the same; no run at all."""
    entries = {"theirs": theirs, "ours": ours or [result(tmp_path, 0.1, status="diverged")]}
    made = comparison(tmp_path, entries)
    found = difference(made["ours"], made["theirs"])
    assert found.test == "", "rounding, which leaves differences a hair apart, is no spread"
    assert ours or math.isnan(found.spread.mean)


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03, math.nan]) == pytest.approx([0.03, 0.06, 0.06, math.nan], nan_ok=True)
    assert holm([0.6, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_a_lead_that_the_shared_seeds_do_not_show_is_not_called_one(tmp_path):
    """The mean of more seeds may lie below that of one, while with this one it is higher."""
    made = comparison(tmp_path, {"er": [0.84, 0.70], "er_ace": [0.80]})
    assert verdict(made.settings[0]) == (
        "Without perturbation, er_ace has the highest mean, ahead of er; with the seeds that both have, it is not "
        "higher: \N{MINUS SIGN}4.00 points, higher with 0 of 1 seed. One seed cannot tell a difference from chance."
    )


LEARNERS = {
    "derpp": [0.60, 0.66, 0.61, 0.65],
    "er": [0.56, 0.58, 0.57, 0.58],
    "er_ace": [0.62, 0.44, 0.64, 0.50],
    "icarl": [0.30, 0.62, 0.32, 0.63],
}


def test_a_lead_is_corrected_for_the_same_differences_in_the_verdict_as_in_the_table(tmp_path):
    (setting,) = comparison(tmp_path, LEARNERS).settings
    pairs = {pair: stats.ttest_rel(*map(LEARNERS.get, pair)).pvalue for pair in combinations(LEARNERS, 2)}
    p = pairs["derpp", "er"]
    assert p == min(pairs.values()) and 3 * p < 0.05 < 6 * p, "only leads of the best would be too few"
    assert f"p = {6 * p:.3f} (corrected for 6 such differences): it may well be chance." in verdict(setting)
    (table,) = learners(setting)
    assert not any(cell.mark for row in table.rows for cell in row)
    alone = {name: LEARNERS[name] for name in ("derpp", "er")}
    (setting,) = comparison(tmp_path, alone).settings
    assert f"p = {p:.3f}: more than chance." in verdict(setting)
    assert [[cell.whole for cell in row[1:]] for row in learners(setting)[0].rows] == [
        ["", "+5.75 ± 2.06*"],
        ["\N{MINUS SIGN}5.75 ± 2.06*", ""],
    ]


def test_of_many_learners_each_is_compared_with_the_best_that_can_be_tested(tmp_path):
    names = ["er", "derpp", "er_ace", "gem", "agem", "lwf", "ewc", "der", "bic"]
    runs = {name: [0.3 + place / 100, 0.35, 0.31 + place / 200] for place, name in enumerate(names)}
    (setting,) = comparison(tmp_path, runs | {"joint": [0.9]}).settings
    said, (table,) = verdict(setting), learners(setting)
    best = "bic has the highest mean, ahead of der"
    assert f"Of the 9 methods without perturbation and with several seeds, {best}" in said
    assert "(corrected for 8 such differences)" in said and said.endswith("Higher, but with one seed: joint.")
    assert "each against bic, which has the highest mean of those with several seeds." in table.caption
    assert [row[0].text for row in table.rows] == [*names[:-1], "joint"]
    values = dict(zip(table.head, table.rows[names.index("der")], strict=True))
    assert f"p = {values['p (Holm)'].text} " in said


def test_joint_training_is_no_rival(tmp_path):
    upper = [result(tmp_path, [[0.1] * 3, [final] * 3], seed, learner="joint") for seed, final in enumerate([0.8, 0.9])]
    two = {"er": [0.5, 0.6], "derpp": [0.6, 0.7]}
    (alone,), (both,) = (comparison(tmp_path, made).settings for made in (two, two | {"joint": upper}))
    assert verdict(both) == verdict(alone) and "derpp has the highest mean" in verdict(alone)
    assert learners(both)[0].head[1:] == ("er", "derpp")


def test_the_best_is_named_for_each_memory(tmp_path):
    runs = {
        f"{learner} memory={size}": [
            result(tmp_path, accuracy, seed, learner=learner, memory=size) for seed, accuracy in enumerate(of)
        ]
        for learner, size, of in [
            ("er", 50, [0.5, 0.51]), ("derpp", 50, [0.6, 0.62]), ("er", 99, [0.8, 0.83]), ("derpp", 99, [0.7, 0.71]),
        ]
    }  # fmt: skip
    said = verdict(comparison(tmp_path, runs).settings[0])
    for best, other, size in (("derpp", "er", 50), ("er", "derpp", 99)):
        head = f"Without perturbation at memory={size}, {best} memory={size} has the highest mean, ahead of "
        assert f"{head}{other} memory={size}: " in said


def test_a_verdict_on_many_methods_with_long_names_stays_short(tmp_path):
    sizes = range(20, 100, 10)
    runs = {
        f"{learner}{plus}{perturb} memory={size}:per=class": [
            result(tmp_path, accuracy + size / 1000 * (perturb == "none"), seed, memory=f"{size}:per=class",
                   learner=learner, perturb=perturb or "none")
            for seed, accuracy in enumerate(of)
        ]
        for learner, of in (("er", [0.3, 0.31, 0.32]), ("derpp", [0.4, 0.42, 0.5]))
        for plus, perturb in (("", ""), ("+", "wap:steps=2,step_size=0.123456"))
        for size in sizes
    }  # fmt: skip
    said = verdict(comparison(tmp_path, runs).settings[0])
    assert len(said) < 1100
    best = [f"derpp at memory={size}:per=class (+13.00 ± 4.36 points over er, p = 0.035)" for size in sizes]
    assert f"Without perturbation, the highest means are those of {', '.join(best[:6])} and 2 more. More than" in said
    assert "More than chance at memory=20:per=class, memory=30:per=class, memory=40:per=class" in said


def test_the_surest_gain_is_named_beside_the_largest_and_what_is_worse_for_sure(tmp_path):
    runs = {"er": [0.50, 0.52, 0.51, 0.53], "er+wap": [0.50, 0.75, 0.45, 0.70], "er+vt": [0.55, 0.57, 0.565, 0.58],
            "er+vmf": [0.40, 0.42, 0.41, 0.435], "er+gaussian": [0.50, 0.51, 0.53, 0.52]}  # fmt: skip
    said = verdict(comparison(tmp_path, runs).settings[0])
    assert said.startswith("er+wap gains most over er: +8.50")
    assert "it may well be chance." in said
    assert said.endswith("No gain: er+gaussian. More than chance: er+vt. Worse, by more than chance: er+vmf.")
    runs["er+wap"] = [0.60, 0.62, 0.61, 0.635]
    said = verdict(comparison(tmp_path, runs).settings[0])
    assert "more than chance. No gain" in said
    assert "Also more than chance: er+vt." in said
    runs = {name: values for name, values in runs.items() if name in ("er", "er+vmf")} | {
        "er+vt": [0.5, 0.52, 0.5, 0.53]
    }
    said = verdict(comparison(tmp_path, runs).settings[0])
    assert said.startswith("No perturbation has a higher mean final accuracy than its learner. er+vt loses least")
    assert said.endswith("Worse, by more than chance: er+vmf.")


def test_a_difference_of_nothing_but_rounding_is_no_gain(tmp_path):
    """These means are the same, but that of the differences is 9e-18."""
    er, wap = [0.1, 0.2, 0.4], [0.4, 0.1, 0.2]
    assert 0 < np.mean(np.subtract(wap, er)) < 1e-16
    said = verdict(comparison(tmp_path, {"er": er, "er+wap": wap, "er+vt": [0.1, 0.0, 0.1]}).settings[0])
    none = "No perturbation has a higher mean final accuracy than its learner."
    assert said.startswith(f"{none} er+wap is level with er: 0.00 ± 26.46 points, higher with 1 of 3 seeds.")
    untested = [result(tmp_path, value, seed, learner="derpp", perturb=perturb)
                for perturb in ("none", "vt") for seed, value in enumerate((0.2, 0.3))]  # fmt: skip
    runs = {"er": [0.5, 0.6], "er+wap": [0.4, 0.55], "derpp": untested[:2], "derpp+vt": untested[2:]}
    assert "Higher, but cannot be tested" not in verdict(comparison(tmp_path, runs).settings[0])
    said = verdict(comparison(tmp_path, {"er": er, "derpp": wap}).settings[0])
    assert "er has the highest mean, as has derpp: 0.00 ± 26.46 points, higher with 2 of 3" in said
    same = comparison(tmp_path, {"er": [0.1 + 0.2, 0.5], "er+wap": [0.3, 0.5]})
    assert difference(same["er"], same["er+wap"]).wins == 0


def test_equal_results_are_called_equal(tmp_path):
    said = verdict(comparison(tmp_path, {"er": [0.5, 0.6], "derpp": [0.5, 0.6], "er+wap": [0.5, 0.6]}).settings[0])
    assert "er+wap is level with er: 0.00 ± 0.00 points, equal with every seed. All seeds agree" in said
    assert "er has the highest mean, as has derpp: 0.00 ± 0.00 points, equal with every seed. All" in said


def test_a_perturbation_without_its_learner_is_named(tmp_path):
    runs = {"er": [0.5, 0.52], "er+wap": [0.6, 0.63], "derpp+gaussian": [0.7, 0.72]}
    made = comparison(tmp_path, runs)
    told = "derpp+gaussian is not compared with its learner: derpp is not among the methods."
    assert told in verdict(made.settings[0])
    assert told in " ".join(str(made).split()) and told in render(made)
    said = verdict(comparison(tmp_path, {"derpp+gaussian": [0.7], "derpp+vt": [0.6]}).settings[0])
    told = "derpp+gaussian, derpp+vt are not compared with their learner: derpp is not among the methods."
    assert said == told
    other = [result(tmp_path, 0.6, seed, perturb="wap", lr=0.7) for seed in (0, 1)]
    said = verdict(comparison(tmp_path, {"er": [0.5, 0.52], "er+wap": other}).settings[0])
    assert said == "er+wap is not compared with its learner: er with the same settings is not among the methods."
    assert verdict(comparison(tmp_path, {"derpp+vt": [0.6]}).settings[0]) == "", "nothing is compared"


def test_differences_that_can_be_tested_come_first(tmp_path):
    runs = {"er": [0.50, 0.52, 0.51], "er+vt": [0.55, 0.58, 0.56], "er_ace": [0.7], "er_ace+wap": [0.9],
            "derpp": [0.60, 0.63, 0.61]}  # fmt: skip
    said = verdict(comparison(tmp_path, runs).settings[0])
    assert said.startswith("er+vt gains most over er: +5.33")
    assert " Higher, but cannot be tested: er_ace+wap (+20.00 points, higher with 1 of 1 seed)." in said
    assert "Without perturbation and with several seeds, derpp has the highest mean, ahead of er: +10.33" in said
    assert said.endswith("Higher, but with one seed: er_ace.")
    said = verdict(comparison(tmp_path, runs | {"er+vt": [0.45, 0.48, 0.46]}).settings[0])
    assert said.startswith("er+vt loses least against er: \N{MINUS SIGN}4.67") and "No gain" not in said


def test_seeds_that_were_lost_are_told(tmp_path):
    """The mean of the seeds that went well is above that of all."""
    bad = result(tmp_path, 0.1, 2, "diverged", perturb="wap")
    made = comparison(tmp_path, {"er": [0.5, 0.52, 0.51], "er+wap": [0.6, 0.63]})
    entries = [("er", r) for r in made["er"].results] + [("er+wap", r) for r in [*made["er+wap"].results, bad]]
    said = verdict(type(made)(entries, tmp_path).settings[0])
    assert "n = 2" in said
    assert said.endswith("Not all seeds finished, and those that did may flatter the method: er+wap (2 of 3).")


def test_one_seed_is_called_no_mean(tmp_path):
    one = str(comparison(tmp_path, {"er": [0.5], "er+wap": [0.6]}))
    assert "In %, of a single seed" in one
    assert "One seed cannot tell a difference from chance." in one
    assert "In %, mean ± standard deviation" in str(comparison(tmp_path, {"er": [0.5, 0.6], "er+wap": [0.6]}))
    none = [result(tmp_path, 0.5, seed, status="diverged") for seed in (0, 1)]
    assert "single seed" not in str(comparison(tmp_path, {"er": none}))
