"""What counts as reproduced, in closed form."""

import math

import pytest

from moca.recipes.outcome import REPRODUCED, outcome
from moca.report.spread import Spread

NONE = math.nan
NEAR, ABOVE, NOISE = REPRODUCED


@pytest.mark.parametrize(
    ("paper", "std", "mean", "own", "expected"),
    [
        (40.0, NONE, 38.5, NONE, NEAR),
        (40.0, NONE, 38.49, NONE, "below"),
        (40.0, NONE, 41.5, NONE, NEAR),
        (40.0, NONE, 41.51, 5.0, ABOVE),
        (40.0, NONE, 36.0, 2.0, NOISE),
        (40.0, NONE, 35.9, 2.0, "below"),
        (40.0, 2.0, 36.0, NONE, NOISE),
        (40.0, 3.0, 35.0, 4.0, NOISE),  # pooled: sqrt((9 + 16) / 2) = 3.54
        (40.0, 3.0, 32.9, 4.0, "below"),
    ],
)
def test_what_counts_as_reproduced(paper, std, mean, own, expected):
    assert outcome(paper, std, Spread(mean, own), higher_is_better=True) == expected


@pytest.mark.parametrize(
    ("paper", "mean", "own", "expected"),
    [
        (1.5, 1.64, NONE, NEAR),
        (1.5, 1.66, NONE, "differs"),
        (1.5, 1.34, NONE, "differs"),
        (-6.0, -6.5, NONE, NEAR),
        (1.5, 1.8, 0.2, NOISE),
        (1.5, 1.91, 0.2, "differs"),
    ],
)
def test_a_number_that_is_no_accuracy_may_not_be_far_above_either(paper, mean, own, expected):
    assert outcome(paper, NONE, Spread(mean, own), higher_is_better=False) == expected
