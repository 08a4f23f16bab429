# ruff: noqa: RUF001
import re

import pytest

from moca.report.page import render, write_report
from tests.report.made_results import comparison, matrix, result
from tests.report.seen_page import cells, text_of


def test_means_and_deviations_are_those_of_the_comparison(tmp_path):
    made = comparison(tmp_path, {"er": [0.70, 0.74, 0.81], "er+wap": [0.75, 0.74, 0.90]})
    page = render(made)
    for row in made.rows:
        assert cells(page, row.label)[2] == row.spread("final_accuracy").percent()
    assert cells(page, "er")[1:5] == ["3", "75.00 ± 5.57", "–", "–"]


def test_differences_are_paired_by_seed(tmp_path):
    made = comparison(tmp_path, {"er": [0.70, 0.74, 0.81], "er+wap": [0.75, 0.74, 0.90]})
    # By hand: 5, 0 and 9 points; mean 14/3, deviation sqrt((0.1111 + 21.7778 + 18.7778) / 2) = 4.5092.
    assert cells(render(made), "er+wap")[3:5] == ["+4.67 ± 4.51", "2 of 3"]


def test_pairs_need_the_same_seed(tmp_path):
    made = comparison(
        tmp_path, {"a": [result(tmp_path, 0.5, seed=1), result(tmp_path, 0.6, seed=2)], "b": [0.9, 0.8, 0.7]}
    )
    assert made["b"].differences(made["a"], "final_accuracy") == pytest.approx([0.3, 0.1])
    assert cells(render(made), "b")[3:5] == ["+20.00 ± 14.14", "2 of 2"]


def test_a_method_that_does_not_help_is_said_not_to(tmp_path):
    page = render(comparison(tmp_path, {"er": [0.7, 0.8], "er+vt": [0.6, 0.75]}))
    assert "No other method has a higher mean final accuracy than er." in text_of(page)
    assert cells(page, "er+vt")[3:5] == ["−7.50 ± 3.54", "0 of 2"]


def test_a_gain_within_the_deviation_is_called_chance(tmp_path):
    page = text_of(render(comparison(tmp_path, {"er": [0.7, 0.8], "er+wap": [0.6, 0.95], "er+vt": [0.5, 0.5]})))
    assert "er+wap gains most on er: +2.50 ± 17.68 points, higher with 1 of 2 seeds. No gain on er: er+vt." in page
    assert "it may well be chance" in page


def test_caption_says_how_many_seeds_and_what_plus_minus_is(tmp_path):
    page = text_of(render(comparison(tmp_path, {"er": [0.7, 0.8], "b": [0.7]})))
    assert "Means of 1 to 2 seeds in percent" in page
    assert "± is the sample standard deviation over seeds" in page


def test_one_seed_has_no_deviation(tmp_path):
    page = render(comparison(tmp_path, {"er": [0.7], "er+wap": [0.75]}))
    assert cells(page, "er+wap")[1:5] == ["1", "75.00", "+5.00", "1 of 1"]
    assert "One seed cannot tell a difference from chance." in text_of(page)


def test_a_diverged_run_is_listed_and_does_not_count(tmp_path):
    broken = result(tmp_path, matrix(0.0)[:2], 1, "diverged", "the loss is no longer a finite number at step 7")
    page = render(comparison(tmp_path, {"er": [0.7, 0.8], "er+wap": [result(tmp_path, 0.9), broken]}))
    assert cells(page, "er+wap")[1:4] == ["1 of 2", "90.00", "+20.00"]
    assert "er+wap, seed 1: diverged – the loss is no longer a finite number at step 7" in text_of(page)


def test_nothing_finished(tmp_path):
    stopped = result(tmp_path, [[0.1, 0.1]], 0, "interrupted", "stopped after step 3")
    page = render(comparison(tmp_path, {"er": [stopped], "er+wap": [stopped]}))
    assert cells(page, "er")[1:] == ["0 of 1"] + ["–"] * 10
    assert "stopped after step 3" in page
    assert "<svg" not in page


def test_no_runs_at_all(tmp_path):
    assert "No run was made." in render(comparison(tmp_path, {}))


def test_joint_has_no_forgetting(tmp_path):
    joint = [[0.3, 0.3, 0.3], [0.9, 0.95, 1.0]]
    made = comparison(tmp_path, {"er": [0.7], "joint": [result(tmp_path, joint, learner="joint")]})
    line = cells(render(made), "joint")
    assert line[2] == "95.00"
    assert line[6:9] == ["–"] * 3


def test_a_single_task_has_no_forgetting(tmp_path):
    page = render(comparison(tmp_path, {"er": [result(tmp_path, [[0.1], [0.9]])]}))
    assert cells(page, "er")[6:9] == ["–"] * 3
    assert "nan" not in text_of(page).lower()


def test_accuracy_that_is_not_known(tmp_path):
    unknown = [[0.0, float("nan")], [1.0, float("nan")], [0.5, float("nan")]]
    page = render(comparison(tmp_path, {"er": [result(tmp_path, unknown)], "b": [result(tmp_path, unknown)]}))
    assert cells(page, "b")[2:5] == ["–"] * 3
    assert "nothing can be compared" in page


def test_labels_and_messages_are_escaped(tmp_path):
    evil = '<script>alert("x")</script> & $\\frac$ \x00'
    broken = result(tmp_path, [[0.1, 0.1]], 1, "diverged", "<img src=http://x/>")
    made = comparison(tmp_path, {evil: [0.7, 0.8], "_b": [0.5, broken]})
    page = render(made, about="<b>mine</b>")
    assert "<script" not in page
    assert "<img" not in page
    assert "<b>" not in page
    assert "&lt;script&gt;alert" in page
    assert '<script>alert("x")</script> & $\\frac$' in text_of(page)


def test_page_asks_for_nothing_from_outside(tmp_path):
    page = render(comparison(tmp_path, {"er": [0.7, 0.8], "er+wap": [0.75, 0.7]}))
    assert "default-src 'none'" in page
    assert not re.search(r"<(script|link|img|iframe|object|embed|base)\b", page)
    assert not re.search(r"\bsrc\s*=|@import|url\((?!#)", page)
    assert all(target.startswith("#") for target in re.findall(r"href=\"([^\"]*)", page))
    addresses = set(re.findall(r"https?://[^\s\"'<]+", page))
    assert addresses <= {"http://www.w3.org/2000/svg"}, "a namespace is only a name"


def test_ids_are_unique(tmp_path):
    ids = re.findall(r"\bid=\"([^\"]+)", render(comparison(tmp_path, {"er": [0.7, 0.8], "er+wap": [0.75, 0.7]})))
    assert len(ids) == len(set(ids))


def test_notes_name_their_methods(tmp_path):
    full = result(tmp_path, 0.7, notes=["nothing need be forgotten"])
    page = text_of(render(comparison(tmp_path, {"er": [full], "derpp": [full], "joint": [0.9]})))
    assert "nothing need be forgotten (er, derpp)" in page


def test_written_once_and_the_same_each_time(tmp_path):
    made = comparison(tmp_path / "new", {"er": [0.7, 0.8], "er+wap": [0.75, 0.7]})
    path = write_report(made)
    first = path.read_bytes()
    assert path == tmp_path / "new" / "report.html"
    assert [p.name for p in path.parent.iterdir()] == ["report.html"]
    assert write_report(made).read_bytes() == first
