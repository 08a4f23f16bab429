"""The page: every cell on it, numbers from files alone."""

import re
from pathlib import Path

from moca.recipes import cells, missing
from moca.recipes.page import render
from moca.recipes.status import Standing

ROOT = Path(__file__).parents[2]


def test_the_page_of_a_tiny_paper(tiny_paper, tmp_path):
    before = Standing(cells.cells(), [tmp_path], seeds=1)
    assert "**Of 0 experiments, each counted once, 0 end within 1.5 points" in render(before, "r")
    missing.carry_out(before.wanted(before.entries), tmp_path / "out", tmp_path / "work", "cpu", shown=False)
    after = Standing(cells.cells(), [tmp_path / "out"], seeds=1)
    page = render(after, "made/up")
    assert "the result files under `made/up`. Do not edit" in page
    assert "**Of 1 experiments, each counted once, 0 end within 1.5 points of the paper's number**, 1 further" in page
    assert "**Of their 2 numbers, some in several tables, 0 are within 1.5 points**, 2 further above, 0" in page
    assert "**Not measured: 1 of the 3 numbers that the paper claims.**" in page
    assert "[fig10](#fig10) | accuracy after each task | 1 of 1, 1 repeated | 0 | 1 of 1 |" in page
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
        " ".join((ROOT / name).read_text("utf-8").replace("**", "").split())
        for name in ("RESULTS.md", "README.md", "docs/results.md")
    )
    experiments = re.search(r"Of \d+ experiments, .*? below\.", page).group()
    few, others = re.search(r"(\d+) have fewer than 3 seeds; (of the other \d+, .*? below\.)", page).groups()
    measured, near, reproduced = re.search(r"Of their (\d+) .*?, (\d+) are within.*? So (\d+) are", page).groups()
    order, chance, corrected = re.search(r"(Of \d+ claims .*? hold)( \(.*?\)), (\d+ after) Holm's", page).groups()
    untested = re.search(r"(\d+ more have one seed) and", page).group(1)
    claimed = re.search(r"of the (\d+) numbers that the paper claims", page).group(1)
    assert f"{experiments} {few} have one seed. They cover {measured} of the {claimed} numbers" in readme
    assert f"{order}, {corrected} correction for their number." in readme
    assert f"{experiments} {few} have one seed; {others}" in guide
    assert f"of the {claimed} numbers that it claims, {measured} are measured, {near} of them within 1.5" in guide
    assert f"{reproduced} [reproduced]" in guide
    assert f"{order}{chance}, {corrected} Holm's correction" in guide and untested in guide
    for learner in ("er", "derpp", "er_ace"):
        rows = (rf"m500 \| {learner}\+{one} over {learner} \| (\S+ \| \S+ ± \S+)" for one in ("gaussian", "wap"))
        assert f"| `{learner}` | {' | '.join(re.search(row, page).group(1) for row in rows)} |" in guide
