"""Every number of the paper parses, and is read from our runs."""

import math
from collections import Counter
from types import SimpleNamespace
from typing import get_args

import pytest

from moca.recipes.cells import Status, cells, exhibits
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
