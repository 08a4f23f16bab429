"""Calibration: whether a classifier is right as often as it says."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Reliability:
    """Samples by the confidence of their prediction, in bins of equal width."""

    counts: list[int]
    confidence: list[float]
    """Mean confidence of the samples of each bin; NaN where there are none."""
    accuracy: list[float]
    """Share of them that is right."""

    @property
    def centres(self) -> list[float]:
        """Of the bins."""
        return [(k + 0.5) / len(self.counts) for k in range(len(self.counts))]

    @property
    def ece(self) -> float:
        """Expected calibration error: the mean over samples of |accuracy - confidence| of their bins."""
        gaps = [n * abs(a - c) for n, a, c in zip(self.counts, self.accuracy, self.confidence, strict=True) if n]
        return math.fsum(gaps) / sum(self.counts) if gaps else math.nan

    @property
    def overconfidence(self) -> float:
        """Mean confidence above accuracy, over all samples; negative where the classifier is too modest."""
        gaps = [n * (c - a) for n, a, c in zip(self.counts, self.accuracy, self.confidence, strict=True) if n]
        return math.fsum(gaps) / sum(self.counts) if gaps else math.nan


def reliability(probabilities: Tensor, labels: Tensor, bins: int = 15) -> Reliability:
    """Of class probabilities, a row a sample. A confidence on the border of two bins belongs to the lower one."""
    confidence, predicted = probabilities.double().max(1)
    place = (confidence * bins).ceil().long().sub(1).clamp(0, bins - 1)
    counts = torch.bincount(place, minlength=bins)
    means = [
        (torch.zeros(bins, dtype=torch.float64, device=place.device).index_add_(0, place, each) / counts).tolist()
        for each in (confidence, (predicted == labels).double())
    ]
    return Reliability(counts.tolist(), *means)
