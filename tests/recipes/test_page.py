"""The page: every cell on it, numbers from files alone."""

import re
from pathlib import Path

from moca.recipes import cells, missing
from moca.recipes.page import render
from moca.recipes.status import Standing

ROOT = Path(__file__).parents[2]


def test_the_page_of_a_tiny_paper(tiny_paper, tmp_path):
    before = Standing(cells.cells(), [tmp_path], seeds=1)
    assert "**Numbers: 0 of 0 are reproduced.**" in render(before, "r")
    missing.carry_out(before.wanted(before.entries), tmp_path / "out", tmp_path / "work", "cpu", shown=False)
    after = Standing(cells.cells(), [tmp_path / "out"], seeds=1)
    page = render(after, "made/up")
    assert "the result files under `made/up`. Do not edit" in page
    assert "**Numbers: 2 of 2 are reproduced.** 0 are at most 1.5 points from the paper's, 2 are further above," in page
    assert "Of the 2, 2 have fewer than 3 seeds. They come from 1 experiments" in page
    assert "**Not measured: 1 of the 3 numbers that the paper claims.**" in page
    assert "[fig10](#fig10) | accuracy after each task | 1 of 1, 1 repeated | 1 of 1 |" in page
    plain = after.entries[0].values[0]
    assert f"| er | 1.00 | {plain:.2f} | 1 | +{plain - 1:.2f} | reproduced, above (n = 1) | 1 |" in page
    assert "- Not yet runnable, 1 cell: a ruler." in page
    assert "made up (2 cells)" in page
    assert re.search(r"\| 1 \| `moca compare --data digits --learner er .*--seeds 1` \| 1 \|", page)
    assert render(Standing(cells.cells(), [tmp_path / "out"], seeds=1), "made/up") == page


def test_only_what_was_measured_is_in_the_tables(tiny_paper, tmp_path):
    """What the cells of a table have in common is said above it; what was not run is only counted."""
    before = Standing(cells.cells(), [tmp_path], seeds=1)
    missing.carry_out(before.wanted(before.entries)[:1], tmp_path / "out", tmp_path / "work", "cpu", shown=False)
    page = render(Standing(cells.cells(), [tmp_path / "out"], seeds=1), "r")
    table = page.partition("## table1\n")[2].partition("##")[0]
    assert re.findall(r"\| (er[^ ]*) \|", table) == ["er"]
    assert "- Missing: 1 runs, about " in table
    assert "er+gaussian" not in table


def test_the_page_in_the_repository_is_what_the_results_say():
    page = (ROOT / "RESULTS.md").read_text("utf-8")
    assert page == render(Standing(cells.cells(), [ROOT / "results"]), "results"), "run: moca paper report"


def test_the_readme_and_the_guide_count_as_the_page_does():
    page, readme, guide = (
        " ".join((ROOT / name).read_text("utf-8").split()) for name in ("RESULTS.md", "README.md", "docs/results.md")
    )
    reproduced, measured, near, above, noise = re.search(
        r"Numbers: (\d+) of (\d+) are reproduced.\*\* (\d+) are at .*?, (\d+) are further above, (\d+) are", page
    ).groups()
    claims, hold, corrected, untested = re.search(
        r"of (\d+) claims tested .*?, (\d+) hold\*\* .*?; (\d+) after Holm's .*? (\d+) more have one seed", page
    ).groups()
    claimed = re.search(r"of the (\d+) numbers that the paper claims", page).group(1)
    assert (
        f"Of the {claimed} numbers that the paper claims, {measured} are measured and {reproduced} of these "
        f"reproduced. Of {claims} claims that one method beats another, tested with at least two seeds, {hold} hold, "
        f"{corrected} after correction for their number." in readme
    )
    assert f"Of the {claimed} numbers that the paper claims, {measured} are measured," in guide
    assert f"{near} differ by at most 1.5 points, {above} are further above, {noise} are further below" in guide
    assert f"Of {claims} claims that one method beats another, tested with at least two seeds, {hold} hold" in guide
    assert f"{corrected} after Holm's correction for all {claims}" in guide
    assert f"{untested} more have one seed" in guide
    for learner in ("er", "derpp", "er_ace"):
        rows = (rf"m500 \| {learner}\+{one} over {learner} \| (\S+ \| \S+ ± \S+)" for one in ("gaussian", "wap"))
        assert f"| `{learner}` | {' | '.join(re.search(row, page).group(1) for row in rows)} |" in guide
