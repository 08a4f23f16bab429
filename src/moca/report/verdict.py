"""What the differences to the first method say, in plain words."""

from __future__ import annotations

import math

from moca.report.comparison import Comparison, Spread
from moca.report.table import percent, signed


def verdict(comparison: Comparison) -> str:
    """Whether any method did better than the first one, and how sure one can be with so few seeds."""
    if len(comparison.rows) < 2:
        return ""
    first, *others = comparison.rows
    differences = {row.label: row.differences(first, "final_accuracy") for row in others}
    known = {label: values for label, values in differences.items() if not math.isnan(Spread.of(values).mean)}
    if not known:
        return f"No seed finished both with {first.label} and with another method, so nothing can be compared."
    best = max(known, key=lambda label: Spread.of(known[label]).mean)
    spread, seeds = Spread.of(known[best]), len(known[best])
    if spread.mean <= 0:
        return f"No other method has a higher mean final accuracy than {first.label}." + _caution(spread, seeds)
    shown = signed(spread)
    size = f"{shown.mean} {shown.aside}".strip()
    wins = sum(d > 0 for d in known[best])
    worse = [label for label, values in known.items() if Spread.of(values).mean <= 0]
    return (
        f"{best} gains most on {first.label}: {size} points, higher with {wins} of {seeds} seeds."
        + (f" No gain on {first.label}: {', '.join(worse)}." if worse else "")
        + _caution(spread, seeds)
    )


def _caution(spread: Spread, seeds: int) -> str:
    if seeds < 2:
        return " One seed cannot tell a difference from chance."
    if 0 < spread.mean <= spread.std:
        return f" The gain is within one standard deviation ({percent(spread.std)}): it may well be chance."
    return ""
