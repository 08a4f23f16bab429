"""Calibration: whether the confidence of a classifier agrees with its accuracy."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Reliability:
    """Samples by the confidence of their prediction, in bins of equal width."""

    counts: list[int]
    confidence: list[float]
    """Mean confidence of the samples in each bin; NaN if it is empty."""
    accuracy: list[float]
    """Accuracy of the samples in each bin; NaN if it is empty."""

    @property
    def centres(self) -> list[float]:
        """The centres of the bins."""
        return [(k + 0.5) / len(self.counts) for k in range(len(self.counts))]

    @property
    def ece(self) -> float:
        """Expected calibration error: the mean over samples of |accuracy - confidence| of their bins."""
        gaps = [n * abs(a - c) for n, a, c in zip(self.counts, self.accuracy, self.confidence, strict=True) if n]
        return math.fsum(gaps) / sum(self.counts) if gaps else math.nan

    @property
    def overconfidence(self) -> float:
        """Mean confidence minus accuracy, over all samples; negative if the classifier is underconfident."""
        gaps = [n * (c - a) for n, a, c in zip(self.counts, self.accuracy, self.confidence, strict=True) if n]
        return math.fsum(gaps) / sum(self.counts) if gaps else math.nan


def reliability(probabilities: Tensor, labels: Tensor, bins: int = 15) -> Reliability:
    """Bin samples by confidence, given class probabilities, one row per sample. A confidence on the border of two bins
    belongs to the lower one."""
    confidence, predicted = probabilities.double().max(1)
    place = (confidence * bins).ceil().long().sub(1).clamp(0, bins - 1)
    counts = torch.bincount(place, minlength=bins)
    means = [
        (torch.zeros(bins, dtype=torch.float64, device=place.device).index_add_(0, place, each) / counts).tolist()
        for each in (confidence, (predicted == labels).double())
    ]
    return Reliability(counts.tolist(), *means)
