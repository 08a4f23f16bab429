"""The page: every cell on it, numbers from files alone."""

import re
from pathlib import Path

from moca.recipes import cells, missing
from moca.recipes.page import render
from moca.recipes.status import Standing

ROOT = Path(__file__).parents[2]


def test_the_page_of_a_tiny_paper(tiny_paper, tmp_path):
    before = Standing(cells.cells(), [tmp_path], seeds=1)
    assert "**0 of 3 claimed cells are measured; 0 of these are reproduced.**" in render(before, "r")
    missing.carry_out(before.wanted(before.entries), tmp_path / "out", tmp_path / "work", "cpu", shown=False)
    after = Standing(cells.cells(), [tmp_path / "out"], seeds=1)
    page = render(after, "made/up")
    assert "the result files under `made/up`. Do not edit" in page
    plain = after.entries[0].values[0]
    assert f"| er | 1.00 | {plain:.2f} | 1 | +{plain - 1:.2f} | reproduced (n = 1) | 1 |" in page
    assert "- Not yet runnable, 1 cells: a ruler." in page
    assert "made up (2 cells)" in page
    assert re.search(r"\| 1 \| `moca compare --data digits --learner er .*--seeds 1` \| 1 \|  \|  \|", page)
    assert render(Standing(cells.cells(), [tmp_path / "out"], seeds=1), "made/up") == page


def test_the_page_in_the_repository_is_what_the_results_say():
    page = (ROOT / "RESULTS.md").read_text("utf-8")
    assert page == render(Standing(cells.cells(), [ROOT / "results"]), "results"), "run: moca paper report"
