"""Mean and standard deviation of a few numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Spread:
    """Mean and sample standard deviation of one number over the runs that finished."""

    mean: float
    """NaN if no run finished."""
    std: float
    """NaN if there is only one run."""
    n: int = 0
    """How many runs it is over, which can be fewer than finished, since a number may be unknown in some."""

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Compute mean and standard deviation, ignoring values that are not finite."""
        known = np.array([v for v in values if math.isfinite(v)])
        mean = float(known.mean()) if len(known) else math.nan
        return cls(mean, float(known.std(ddof=1)) if len(known) > 1 else math.nan, len(known))

    def percent(self) -> str:
        """The spread of a share, as a percentage for tables."""
        return "-" if math.isnan(self.mean) else Spread(100 * self.mean, 100 * self.std).points()

    def points(self, sign: str = "") -> str:
        """The spread of percentage points for tables; `sign="+"` always prints the sign, for differences."""
        text = f"{self.mean:{sign}z.2f}" + ("" if math.isnan(self.std) else f" ± {self.std:.2f}")
        return text.replace("-", "\N{MINUS SIGN}")
