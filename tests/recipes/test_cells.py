"""Every number of the paper parses, and cells are found by what they are."""

import math
from collections import Counter
from types import SimpleNamespace
from typing import get_args

import pytest

from moca.errors import MocaError
from moca.recipes.cells import Status, _plain, cells, columns, exhibits, in_exhibits, only
from moca.recipes.experiment import waits_for

NAN = {"t13-wap-lambda4"}
"""Printed so."""


def by_id(name):
    return next(cell for cell in cells() if cell.id == name)


def test_every_cell_parses():
    assert len(cells()) == len({cell.id for cell in cells()}) == 556
    for cell in cells():
        assert cell.exhibit in exhibits()
        assert cell.status in get_args(Status)
        assert math.isnan(cell.value) == (cell.id in NAN), cell.id
        assert math.isnan(cell.std) or cell.std > 0
    assert Counter(cell.status for cell in cells())["claimed"] == 234
    assert by_id("t2-cifar100-er-wap-m500").value == 40.24
    assert by_id("t2-cifar100-er-wap-m500").std == 0.78


def test_every_table_and_figure_of_the_paper_is_listed():
    assert list(exhibits()) == [f"table{i}" for i in range(1, 14)] + [f"fig{i}" for i in range(1, 14)]


def test_a_cell_that_can_be_run_is_read_from_a_result():
    curve = [k / 20 for k in range(10)]
    numbers = {"final_accuracy": 0.5, "average_incremental_accuracy": 0.75}
    result = SimpleNamespace(accuracy_over_tasks=curve, numbers=lambda: numbers)
    for cell in cells():
        if not waits_for(cell) and cell.in_percent:
            after = cell.metric.removeprefix("accuracy_after_task_")
            expected = 5 * (int(after) - 1) if after.isdigit() else 100 * numbers[cell.metric]
            assert cell.read(result) == pytest.approx(expected)


def test_cells_are_chosen_by_what_they_are():
    table2 = in_exhibits(["table2"])
    chosen = only(table2, "cifar100,m500,er,derpp,wap")
    assert [cell.id for cell in chosen] == ["t2-cifar100-er-wap-m500", "t2-cifar100-derpp-wap-m500"]
    assert {cell.learner for cell in only(table2, "er")} == {"er"}
    assert {cell.perturb for cell in only(table2, "er")} == {"none", "gaussian", "wap"}
    assert only(table2, "") == table2
    assert [cell.id for cell in only(in_exhibits(["table8"]), "zeta=5")] == ["t8-zeta5"]
    assert len(in_exhibits(["table2", "fig10"])) == 105 + 140
    assert in_exhibits(["all"]) == list(cells())


@pytest.mark.parametrize(
    ("papers", "ours"),
    [
        ("DER++,WAP", "derpp,wap"),
        ("ER-ACE+WAP", "er_ace+wap"),
        ("CIFAR100, Gaussian", "cifar100,gaussian"),
        ("Tiny-ImageNet,M=200,CIFAR-10", "tinyimagenet,m200,cifar10"),
        ("lambda=2", "lambda=2.0"),
    ],
)
def test_the_papers_spellings_choose_the_same_cells(papers, ours):
    table2 = in_exhibits(["table2"])
    assert only(table2, papers) == only(table2, ours)
    assert in_exhibits(["Table2"]) == in_exhibits(["2"]) == table2
    assert in_exhibits(["Figure 10"]) == in_exhibits(["Fig.10"]) == in_exhibits(["fig10"])


def test_no_two_tags_are_taken_for_one():
    tags = {(kind, tag) for cell in cells() for kind, tag in cell.tags.items() if tag}
    assert len({(kind, _plain(tag)) for kind, tag in tags}) == len(tags)


@pytest.mark.parametrize(
    ("names", "words", "said"),
    [
        (["tabel2"], "", "the paper has no 'tabel2'; did you mean 'table2'?"),
        (["table2"], "cifar1000", "no cell is 'cifar1000'; did you mean 'cifar100'?"),
        (["table8"], "cifar10", "no cell of table8 is 'cifar10'; they are cifar100"),
        (["table10"], "lambda=2", "no cell of table10 is 'lambda=2'"),
        (["table1"], "*", "no cell is '*'; known: "),
        (["table2"], "tinyimagenet,gem", "no cell is all of 'tinyimagenet,gem'; without 'gem' there are derpp, er,"),
    ],
)
def test_a_name_that_nothing_has_is_told_with_the_nearest(names, words, said):
    with pytest.raises(MocaError) as error:
        only(in_exhibits(names), words)
    assert str(error.value).startswith(said)


def test_a_table_shows_what_tells_its_cells_apart():
    assert columns(in_exhibits(["table7"])) == ["method", "memory"]
    assert columns(in_exhibits(["table8"])) == ["method", "zeta", "steps"]
    assert columns(in_exhibits(["table4"])) == ["data", "method", "phases"]
    for name in exhibits():
        shown = in_exhibits([name])
        rows = Counter(tuple(cell.tags.get(kind) for kind in columns(shown)) for cell in shown)
        assert not rows or max(rows.values()) == 1, (name, rows.most_common(1))
