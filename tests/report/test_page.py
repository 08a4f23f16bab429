# ruff: noqa: RUF001
import re

import pytest

from moca import MocaError
from moca.report import tables
from moca.report.differences import against_own_learner
from moca.report.exhibit import Exhibit
from moca.report.page import render, write_report
from moca.report.table import Cell, Table
from moca.report.verdict import verdict
from tests.report.made_results import comparison, matrix, result
from tests.report.seen_page import cells, data_of, text_of


def test_means_and_deviations_are_those_of_the_comparison(tmp_path):
    made = comparison(tmp_path, {"er": [0.70, 0.74, 0.81], "er+wap": [0.75, 0.74, 0.90]})
    page = render(made)
    for row in made.rows:
        assert cells(page, row.label)["Final accuracy"] == row.spread("final_accuracy").percent()
    line = cells(page, "er")
    assert (line["Seeds"], line["Final accuracy"], line["Gain over its learner"]) == ("3", "75.00 ± 5.57", "–")


def test_gains_are_paired_by_seed(tmp_path):
    page = render(comparison(tmp_path, {"er": [0.70, 0.74, 0.81], "er+wap": [0.75, 0.74, 0.90]}))
    # By hand: 5, 0 and 9 points; mean 14/3, deviation sqrt((0.1111 + 21.7778 + 18.7778) / 2) = 4.5092.
    assert cells(page, "er+wap")["Gain over its learner"] == "+4.67 ± 4.51"
    line = cells(page, "er+wap", "perturbations")
    assert (line["Its learner"], line["Higher with"], line["n"], line["Test"]) == ("er", "2 of 3", "3", "paired t")
    # t = 4.6667 / (4.5092 / sqrt(3)) = 1.7926 with two degrees of freedom: 1 - t / sqrt(t^2 + 2) = 0.215.
    assert line["p"] == line["p (Holm)"] == "0.21"


def test_each_perturbation_is_held_against_its_own_learner(tmp_path):
    made = comparison(tmp_path, {"er": [0.5, 0.6], "derpp": [0.7, 0.8], "derpp+wap": [0.6, 0.7], "er+wap": [0.6, 0.8]})
    page = render(made)
    assert cells(page, "derpp+wap", "perturbations")["Its learner"] == "derpp"
    assert cells(page, "derpp+wap")["Gain over its learner"].startswith("−10.00")
    assert cells(page, "er+wap")["Gain over its learner"].startswith("+15.00")
    assert cells(page, "er", "learners")["derpp"].startswith("−20.00")
    assert cells(page, "derpp", "learners")["er"].startswith("+20.00")


def test_where_settings_were_chosen_for_each_a_perturbation_is_held_against_its_learner_with_those_of_its_own(tmp_path):
    def runs(accuracies, **settings):
        return [result(tmp_path, accuracy, seed, **settings) for seed, accuracy in enumerate(accuracies)]

    tuned = {
        "er lr=0.1": runs([0.5, 0.6], lr=0.1, memory=50),
        "er+wap lr=0.01": runs([0.6, 0.8], perturb="wap", lr=0.01, memory=50),
        "derpp+wap lr=0.01": runs([0.6, 0.8], learner="derpp", perturb="wap", lr=0.01, memory=50),
        "er+wap lr=0.01 memory=99": runs([0.6, 0.8], perturb="wap", lr=0.01, memory=99),
    }
    (as_given,), (chosen,) = (comparison(tmp_path, tuned, chosen=known).settings for known in (False, True))
    assert against_own_learner(as_given) == []
    ((row, own, gain),) = against_own_learner(chosen)
    assert (row.label, own.label) == ("er+wap lr=0.01", "er lr=0.1"), "not another learner, nor another memory"
    assert gain.spread.mean == pytest.approx(0.15)
    assert verdict(chosen).startswith("er+wap lr=0.01 gains most over er lr=0.1: +15.00")
    assert "without perturbation, each with the settings chosen for it." in tables.summary(chosen, [None] * 4).caption
    several = tuned | {"er lr=0.3": runs([0.4, 0.4], lr=0.3, memory=50)}
    (setting,) = comparison(tmp_path, several, chosen=True).settings
    assert against_own_learner(setting) == [], "which of them was chosen is not known"


def test_learners_are_held_against_those_with_the_same_memory(tmp_path):
    runs = {
        f"{learner} memory={size}": [result(tmp_path, accuracy, learner=learner, memory=size)]
        for (learner, size), accuracy in {
            ("er", 50): 0.5,
            ("derpp", 50): 0.6,
            ("er", 99): 0.7,
            ("derpp", 99): 0.9,
        }.items()
    }
    (setting,) = comparison(tmp_path, runs | {"joint": [result(tmp_path, 0.95, learner="joint")]}).settings
    heads = [table.head[1:] for table in tables.learners(setting)]
    assert heads == [("er memory=50", "derpp memory=50", "joint"), ("er memory=99", "derpp memory=99", "joint")]
    (alone,) = comparison(tmp_path, {name: runs[name] for name in ("er memory=50", "er memory=99")}).settings
    (table,) = tables.learners(alone)
    assert table.rows[1][1].text == "+20.00", "where nothing else can be compared, memories are"


def test_a_perturbation_with_other_settings_than_its_learner_is_not_held_against_it(tmp_path):
    other = [result(tmp_path, 0.9, seed, perturb="wap", memory=500) for seed in (0, 1)]
    page = render(comparison(tmp_path, {"er": [0.5, 0.6], "er+wap memory=500": other}))
    assert "Perturbations against their learners" not in page


def test_pairs_need_the_same_seed(tmp_path):
    first = [result(tmp_path, 0.5, seed=1), result(tmp_path, 0.6, seed=2)]
    made = comparison(tmp_path, {"er": first, "er+wap": [0.9, 0.8, 0.7]})
    assert made["er+wap"].differences(made["er"], "final_accuracy") == pytest.approx([0.3, 0.1])
    assert cells(render(made), "er+wap")["Gain over its learner"] == "+20.00 ± 14.14"


def test_seeds_that_are_not_shared_get_another_test(tmp_path):
    first = [result(tmp_path, 0.4, seed=7), result(tmp_path, 0.7, seed=8)]
    line = cells(render(comparison(tmp_path, {"er": first, "er+wap": [0.9, 0.8, 0.7]})), "er+wap", "perturbations")
    assert (line["Difference"], line["n"], line["Test"], line["Higher with"]) == ("+25.00", "3 and 2", "Welch t", "–")


def test_a_perturbation_that_does_not_help_is_said_not_to(tmp_path):
    page = render(comparison(tmp_path, {"er": [0.7, 0.8], "er+vt": [0.6, 0.75]}))
    assert "No perturbation has a higher mean final accuracy than its learner. er+vt over er: −7.50" in text_of(page)
    assert cells(page, "er+vt")["Gain over its learner"] == "−7.50 ± 3.54"
    both = text_of(render(comparison(tmp_path, {"er": [0.7, 0.8], "er+vt": [0.6, 0.75], "er+wap": [0.5, 0.5]})))
    assert (
        "than its learner. er+vt loses least against er: −7.50 ± 3.54 points, higher with 0 of 2 seeds. Paired" in both
    )


def test_the_fewest_seeds_are_the_few(tmp_path):
    first = [result(tmp_path, 0.4, seed=7), result(tmp_path, 0.7, seed=8)]
    page = text_of(render(comparison(tmp_path, {"er": first, "er+wap": [0.9, 0.8, 0.7, 0.9, 0.8, 0.7, 0.8]})))
    assert "; 2 seeds can show only large differences" in page


def test_a_gain_that_few_seeds_agree_on_needs_more_of_them(tmp_path):
    page = text_of(render(comparison(tmp_path, {"er": [0.7, 0.8], "er+wap": [0.75, 0.8501]})))
    assert "n = 2, p < 0.001: more than chance; 2 seeds are few, so run more to be sure." in page


def test_a_gain_that_the_test_does_not_see_is_called_chance(tmp_path):
    page = text_of(render(comparison(tmp_path, {"er": [0.7, 0.8], "er+wap": [0.6, 0.95], "er+vt": [0.5, 0.5]})))
    assert "er+wap gains most over er: +2.50 ± 17.68 points, higher with 1 of 2 seeds." in page
    # Their t is 0.2 with one degree of freedom: p = 1 - 2 atan(0.2) / pi; the smaller one of er+vt is doubled instead.
    assert (
        "Paired t-test, n = 2, p = 0.87 (corrected for 2 such differences): it may well be chance; 2 seeds can show"
        in page
    )
    assert "No gain: er+vt." in page


def test_a_clear_gain_is_marked_and_called_so(tmp_path):
    made = comparison(tmp_path, {"er": [0.50, 0.51, 0.52, 0.53, 0.54], "er+wap": [0.60, 0.61, 0.62, 0.64, 0.64]})
    page = render(made)
    assert "p < 0.001: more than chance." in text_of(page)
    assert cells(page, "er+wap")["Gain over its learner"] == "+10.20 ± 0.45 *"


def test_caption_says_what_the_numbers_are(tmp_path):
    page = text_of(render(comparison(tmp_path, {"er": [0.7, 0.8], "er+wap": [0.7, 0.75]})))
    assert "± is the sample standard deviation over seeds" in page
    assert "corrected for all differences in the table (Holm)" in page


def test_one_seed_has_no_deviation(tmp_path):
    page = render(comparison(tmp_path, {"er": [0.7], "er+wap": [0.75]}))
    line = cells(page, "er+wap")
    assert (line["Seeds"], line["Final accuracy"], line["Gain over its learner"]) == ("1", "75.00", "+5.00")
    assert cells(page, "er+wap", "perturbations")["Test"] == "none"
    assert "One seed cannot tell a difference from chance." in text_of(page)


def test_a_caption_explains_only_what_the_figures_have(tmp_path):
    alone = text_of(render(comparison(tmp_path, {"er": [0.7]})))
    parts = ["over seeds", "standard deviation", "band", "legend", "dotted", "Below:", "at most eight methods"]
    assert [part for part in parts if part in alone] == []
    assert "First figure: accuracy on the tasks learned so far. Second figure: final accuracy" in alone
    assert "A column that fades towards the bottom is a task being forgotten." in alone
    joint = result(tmp_path, [[0.3, 0.3, 0.3], [0.9, 0.95, 1.0]], learner="joint")
    many = {f"er {lr}": [result(tmp_path, 0.5, seed, lr=lr) for seed in (0, 1)] for lr in range(1, 9)}
    many["er 1"][0].over_stream = many["er 1"][1].over_stream = [[10, 0.5]]
    every = text_of(render(comparison(tmp_path, {"joint": [joint], **many})))
    assert [part for part in parts if part in every] == parts
    assert "Methods that were run with several values" in every
    assert "a learner that does not have this setting" not in every, "there is none"


def test_every_method_of_a_long_table_is_seen_at_once_in_print_and_on_the_page(tmp_path):
    page = render(comparison(tmp_path, {f"er {lr}": [result(tmp_path, 0.5, lr=lr)] for lr in range(1, 41)}))
    assert 'class="wide" tabindex="0" role="region" aria-label="summary"' in page
    assert re.search(r"@media print \{.*\.wide\.long \{ max-height: none; overflow: visible \}", page, flags=re.S)


def test_held_out_images_are_said_wherever_numbers_stand(tmp_path):
    runs = {"er": [result(tmp_path, 0.7, s, validation=0.1) for s in (0, 1)],
            "er+wap": [result(tmp_path, 0.7 + s / 10, s, validation=0.1, perturb="wap") for s in (0, 1)]}  # fmt: skip
    page = render(comparison(tmp_path, runs))
    assert "test images" not in text_of(page)
    assert text_of(page).count("a held-out share (0.1) of the training images") >= 7
    for plot in data_of(page)["plots"][:2]:
        assert "held-out training images" in str(plot["layout"])


def test_other_data_and_other_images_get_a_section_each(tmp_path):
    runs = {
        "er": [result(tmp_path, 0.7)],
        "er data=mnist": [result(tmp_path, 0.9, data="mnist")],
        "er validation=0.1": [result(tmp_path, 0.8, validation=0.1)],
    }
    page = render(comparison(tmp_path, runs))
    assert page.count("<section id=") == 3
    assert "Their numbers cannot be compared" in text_of(page)
    titles = re.findall(r"<h2>(.*?)</h2>", page)[:3]
    assert titles[0] == "digits, 3 tasks" and titles[1].startswith("mnist") and "held-out" in titles[2]
    assert "Learners against each other" not in page


def test_a_diverged_run_is_listed_and_does_not_count(tmp_path):
    message = "the loss is no longer a finite number at step 7"
    broken = result(tmp_path, matrix(0.0)[:2], 1, "diverged", message, perturb="wap")
    moved = [result(tmp_path, 0.9, perturb="wap"), broken]
    page = render(comparison(tmp_path, {"er": [0.7, 0.8], "er+wap": moved}))
    line = cells(page, "er+wap")
    assert (line["Seeds"], line["Final accuracy"], line["Gain over its learner"]) == ("1 of 2", "90.00", "+20.00")
    assert f"er+wap, seed 1: diverged – {message}" in text_of(page)


def test_nothing_finished(tmp_path):
    stopped = result(tmp_path, [[0.1, 0.1]], 0, "interrupted", "stopped after step 3")
    page = render(comparison(tmp_path, {"er": [stopped]}))
    assert list(cells(page, "er").values())[1:] == ["0 of 1"] + ["–"] * 8
    assert "stopped after step 3" in page
    assert "plotly.js v" not in page, "the library is left out where nothing is drawn"


def test_no_runs_at_all(tmp_path):
    assert "There are no runs." in render(comparison(tmp_path, {}))


def test_joint_has_no_forgetting(tmp_path):
    joint = [[0.3, 0.3, 0.3], [0.9, 0.95, 1.0]]
    made = comparison(tmp_path, {"er": [0.7], "joint": [result(tmp_path, joint, learner="joint")]})
    line = cells(render(made), "joint")
    assert line["Final accuracy"] == "95.00"
    assert [line[name] for name in ("Forgetting", "BWT", "FWT")] == ["–"] * 3


def test_a_single_task_has_no_forgetting(tmp_path):
    page = render(comparison(tmp_path, {"er": [result(tmp_path, [[0.1], [0.9]])]}))
    assert [cells(page, "er")[name] for name in ("Forgetting", "BWT", "FWT")] == ["–"] * 3
    assert "nan" not in text_of(page).lower()


def test_accuracy_that_is_not_known(tmp_path):
    unknown = [[0.0, float("nan")], [1.0, float("nan")], [0.5, float("nan")]]
    runs = {"er": [result(tmp_path, unknown)], "er+wap": [result(tmp_path, unknown, perturb="wap")]}
    page = render(comparison(tmp_path, runs))
    assert cells(page, "er+wap")["Final accuracy"] == "–"
    assert "nothing can be compared" in page
    assert "NaN" not in page[page.index('id="data"') : page.index("</script>", page.index('id="data"'))]


EVIL = '<script>alert("x")</script><img src=x onerror=alert(1)> & $\\frac$ %{y} <a href="http://x">x</a> \x00'


def test_words_of_the_user_stay_words(tmp_path):
    broken = result(tmp_path, [[0.1, 0.1, 0.1]], 1, "diverged", "<img src=http://x/>", notes=["<b>note</b>"])
    named = result(tmp_path, 0.7)
    named.class_names, named.task_classes = ["</script><b>"] * 3, [1, 1, 1]
    named.folder = tmp_path / "<i>run"
    made = comparison(tmp_path, {EVIL: [named, 0.8], "_b": [0.5, broken]})
    page = render(
        made, [Exhibit("<b>mine</b>", tables=[Table("<b>", ("<b>",), [(Cell("<b>"),)])])], about="<b>mine</b>"
    )
    body = re.sub(r"<script>.*?</script>", "", page, flags=re.S)
    assert body.count("<script") == 1 and "</script><" not in body.replace("</script>\n", "")
    for tag in ("<img", "<b>", "<i>", '<a href="http'):
        assert tag not in body
    assert EVIL.replace("\x00", "").strip() in text_of(page).replace("\x00", "")
    plots = data_of(page)["plots"]
    told = [trace.get("name", "") for plot in plots for trace in plot["data"]]
    told += [text for plot in plots for trace in plot["data"] if trace["type"] == "heatmap"
             for line in trace["customdata"] for _, text in line]  # fmt: skip
    assert any("script" in text for text in told)
    assert not any(re.search(r"<(?!br>)", text) for text in told), "plotly reads some HTML in names"


def test_page_asks_for_nothing_from_outside(tmp_path):
    page = render(comparison(tmp_path, {"er": [0.7, 0.8], "er+wap": [0.75, 0.7]}))
    body = re.sub(r"<script>.*?</script>", "", page, flags=re.S)
    assert "default-src 'none'" in page and "script-src 'sha256-" in page and "connect-src" not in page
    assert not re.search(r"<(link|img|iframe|object|embed|base)\b", body)
    assert not re.search(r"\bsrc\s*=|@import|url\((?!#)|\bon\w+=", body)
    assert all(target.startswith("#") for target in re.findall(r"href=\"([^\"]*)", body))
    assert not re.findall(r"https?://[^\s\"'<]+", body)


def test_the_library_is_there_once(tmp_path):
    page = render(comparison(tmp_path, {"er": [0.7, 0.8], "er data=mnist": [result(tmp_path, 0.9, data="mnist")]}))
    assert page.count("plotly.js v") == 1


def test_ids_are_unique(tmp_path):
    page = re.sub(r"<script.*?</script>", "", render(comparison(tmp_path, {"er": [0.7], "er+wap": [0.7]})), flags=re.S)
    ids = re.findall(r"\bid=\"([^\"]+)", page)
    assert len(ids) == len(set(ids)) > 4


def test_what_is_copied_is_the_table_above(tmp_path):
    page = render(comparison(tmp_path, {"er": [0.7, 0.8], "er+wap": [0.7, 0.9], "derpp": [0.8, 0.9]}))
    shown = re.findall(r'<table.*?<th scope="col">(.*?)</th>.*?data-table="([0-9]+)"', page, flags=re.S)
    told = [table["csv"].partition(",")[0] for table in data_of(page)["tables"]]
    assert [(text_of(first), int(place)) for first, place in shown] == [(first, i) for i, first in enumerate(told)]
    assert told == ["Method", "Method", "Row minus column", "Method", "Run"]


def test_notes_name_their_methods(tmp_path):
    full = result(tmp_path, 0.7, notes=["nothing need be forgotten"])
    page = text_of(render(comparison(tmp_path, {"er": [full], "derpp": [full], "joint": [0.9]})))
    assert "er, derpp: nothing need be forgotten" in page


def test_settings_that_differ_are_marked_and_the_others_listed(tmp_path):
    runs = {label: [result(tmp_path, 0.7, lr=lr)] for label, lr in (("a", 0.1), ("b", 0.1), ("c", 0.5))}
    page = render(comparison(tmp_path, runs))
    assert [cells(page, label, "settings") for label in "abc"] == [
        {"Method": "a", "lr": "0.1"}, {"Method": "b", "lr": "0.1"}, {"Method": "c", "lr": "0.5"}]  # fmt: skip
    assert page.count('<td class="mark">') == 1 and '<td class="mark">0.5</td>' in page
    assert "epochs 1" in text_of(page)


def test_runs_that_were_left_out_are_named(tmp_path):
    made = comparison(tmp_path, {"er": [0.7]})
    made.left_out.append("runs/b: still running")
    assert "1 run left out: runs/b: still running" in text_of(render(made))


def test_written_once_and_the_same_each_time(tmp_path):
    made = comparison(tmp_path / "new", {"er": [0.7, 0.8], "er+wap": [0.75, 0.7]})
    path = write_report(made)
    first = path.read_bytes()
    assert path == tmp_path / "new" / "report.html"
    assert [p.name for p in path.parent.iterdir()] == ["report.html"]
    assert write_report(made).read_bytes() == first


def test_a_page_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(MocaError, match=r"page\.html' cannot be written: .*file' is a file; fix that and try"):
        write_report(comparison(tmp_path, {"er": [0.7]}), path=tmp_path / "file" / "page.html")
