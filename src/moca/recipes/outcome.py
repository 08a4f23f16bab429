"""What became of a number of the paper: whether our runs reproduce it."""

from __future__ import annotations

import math
from typing import Literal

from moca.report.spread import Spread

NEAR = 1.5
"""An accuracy at most this many points from the paper's is near it, and counts as reproduced."""
TENTH = 0.1
"""The same for a number that is not an accuracy, as a relative difference."""
SEEDS = 3
"""The paper's number of seeds."""
Outcome = Literal["reproduced", "reproduced, above", "reproduced, within noise", "below", "differs"]
"""Near the paper's number; further above it; further away, but within two standard deviations; or not reproduced."""
REPRODUCED: tuple[Outcome, ...] = ("reproduced", "reproduced, above", "reproduced, within noise")


def outcome(paper: float, std: float, ours: Spread, higher_is_better: bool) -> Outcome:
    """Compares our mean with the paper's number: an accuracy is near if it differs by at most `NEAR` points, another
    number by at most a tenth; noise is two pooled standard deviations."""
    above, margin = ours.mean - paper, NEAR if higher_is_better else TENTH * abs(paper)
    if abs(above) <= margin:
        return "reproduced"
    if higher_is_better and above > 0:
        return "reproduced, above"
    if abs(above) <= 2 * _pooled(std, ours.std):
        return "reproduced, within noise"
    return "below" if higher_is_better else "differs"


def _pooled(*spreads: float) -> float:
    known = [spread**2 for spread in spreads if not math.isnan(spread)]
    return math.sqrt(sum(known) / len(known)) if known else 0.0
