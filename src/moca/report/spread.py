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
    """NaN where no run finished."""
    std: float
    """NaN where there is one run."""

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """The spread of some values; the standard deviation of a single one is unknown."""
        known = np.array([v for v in values if math.isfinite(v)])
        return cls(
            float(known.mean()) if len(known) else math.nan, float(known.std(ddof=1)) if len(known) > 1 else math.nan
        )

    def percent(self) -> str:
        """As a percentage, as tables print it."""
        if math.isnan(self.mean):
            return "-"
        return f"{100 * self.mean:.2f}" + ("" if math.isnan(self.std) else f" ± {100 * self.std:.2f}")

    def points(self, sign: str = "") -> str:
        """As it is, as tables print points; with `+` as a difference."""
        text = f"{self.mean:{sign}.2f}" + ("" if math.isnan(self.std) else f" ± {self.std:.2f}")
        return text.replace("-", "\N{MINUS SIGN}")
