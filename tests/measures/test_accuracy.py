"""Measures of continual learning on matrices whose numbers can be worked out by hand."""

import math
from dataclasses import astuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moca.measures import accuracy_over_tasks, summarise

#            task 0  task 1  task 2
BY_HAND = [
    [0.20, 0.30, 0.10],  # untrained
    [0.90, 0.40, 0.20],  # after task 0
    [0.95, 0.80, 0.30],  # after task 1: task 0 has even improved
    [0.50, 0.60, 0.70],  # after task 2
]


def test_by_hand():
    summary = summarise(BY_HAND)
    assert accuracy_over_tasks(BY_HAND) == pytest.approx([0.9, (0.95 + 0.8) / 2, (0.5 + 0.6 + 0.7) / 3])
    assert summary.final_accuracy == pytest.approx(0.6)
    assert summary.average_incremental_accuracy == pytest.approx((0.9 + 0.875 + 0.6) / 3)
    # Task 0 was best (0.95) after task 1, task 1 (0.8) after itself.
    assert summary.forgetting == pytest.approx(((0.95 - 0.5) + (0.8 - 0.6)) / 2)
    assert summary.bwt == pytest.approx(((0.5 - 0.9) + (0.6 - 0.8)) / 2)
    # Task 1 just before learning it against untrained, and task 2 likewise.
    assert summary.fwt == pytest.approx(((0.4 - 0.3) + (0.3 - 0.1)) / 2)


def test_forgetting_is_negative_when_the_end_is_the_best():
    matrix = [[0.1, 0.1], [0.5, 0.1], [0.7, 0.9]]
    assert summarise(matrix).forgetting == pytest.approx(-0.2)
    assert summarise(matrix).bwt == pytest.approx(0.2)


def test_what_was_known_before_a_task_was_learned_is_not_forgotten():
    matrix = [[0.1, 0.9, 0.1], [0.5, 0.99, 0.1], [0.5, 0.3, 0.1], [0.5, 0.3, 0.5]]
    assert summarise(matrix).forgetting == pytest.approx(0)


def test_joint_training_has_one_stage():
    matrix = [[0.1, 0.1, 0.2], [0.9, 0.8, 0.7]]
    summary = summarise(matrix)
    assert accuracy_over_tasks(matrix) == pytest.approx([0.8])
    assert (summary.final_accuracy, summary.average_incremental_accuracy) == pytest.approx((0.8, 0.8))
    assert all(math.isnan(v) for v in (summary.forgetting, summary.bwt, summary.fwt))


def test_a_single_task():
    summary = summarise([[0.1], [0.75]])
    assert summary.final_accuracy == summary.average_incremental_accuracy == 0.75
    assert all(math.isnan(v) for v in (summary.forgetting, summary.bwt, summary.fwt))


@st.composite
def matrices(draw):
    tasks = draw(st.integers(2, 6))
    share = st.floats(0, 1, allow_nan=False)
    row = st.lists(share, min_size=tasks, max_size=tasks)
    return draw(st.lists(row, min_size=tasks + 1, max_size=tasks + 1))


@given(matrices())
def test_against_loops(matrix):
    tasks, last = len(matrix[0]), matrix[-1]
    forgotten, backward, forward, stages = [], [], [], []
    for j in range(tasks):
        learned = j + 1  # the row after learning task j
        if j < tasks - 1:
            best = max(matrix[i][j] for i in range(learned, tasks))
            forgotten.append(best - last[j])
            backward.append(last[j] - matrix[learned][j])
        if j > 0:
            forward.append(matrix[j][j] - matrix[0][j])
        stages.append(sum(matrix[learned][: j + 1]) / (j + 1))
    expected = (np.mean(last), np.mean(stages), np.mean(forgotten), np.mean(backward), np.mean(forward))
    assert astuple(summarise(matrix)) == pytest.approx(tuple(map(float, expected)))
    assert accuracy_over_tasks(matrix) == pytest.approx(stages)


@given(matrices())
def test_a_task_was_at_its_best_at_least_as_good_as_when_learned(matrix):
    summary = summarise(matrix)
    assert summary.forgetting >= -summary.bwt - 1e-12


@given(st.integers(2, 8), st.floats(0, 1))
def test_a_constant_matrix_neither_forgets_nor_transfers(tasks, value):
    summary = summarise([[value] * tasks] * (tasks + 1))
    assert (summary.forgetting, summary.bwt, summary.fwt) == pytest.approx((0, 0, 0), abs=1e-12)
    assert (summary.final_accuracy, summary.average_incremental_accuracy) == pytest.approx((value, value))


@given(matrices(), st.floats(-1, 1))
def test_adding_a_constant_changes_levels_and_not_differences(matrix, shift):
    before, after = summarise(matrix), summarise([[v + shift for v in row] for row in matrix])
    assert after.final_accuracy == pytest.approx(before.final_accuracy + shift)
    assert after.average_incremental_accuracy == pytest.approx(before.average_incremental_accuracy + shift)
    for name in ("forgetting", "bwt", "fwt"):
        assert getattr(after, name) == pytest.approx(getattr(before, name), abs=1e-9)
