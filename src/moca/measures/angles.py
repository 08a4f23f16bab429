"""Intra-class angle deviation: how far the features of a class lie from its mean direction (the paper's Fig. 1)."""

import math
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from moca import sphere


def angle_deviation(features: Tensor, labels: Tensor) -> dict[int, float]:
    """The mean angle, in degrees, between the features of each class and their mean direction.

    A_c = mean of arccos <P(f), m_c> over the class, where m_c = P(mean of P(f)). Classes with one sample are left out.
    """
    unit = sphere.project(features.double())
    classes, place = labels.unique(return_inverse=True)
    sums = unit.new_zeros(len(classes), unit.shape[1]).index_add_(0, place, unit)
    counts = place.bincount(minlength=len(classes))
    angles = unit.new_zeros(len(classes)).index_add_(0, place, sphere.angle(unit, sums[place]))
    degrees = (angles / counts).rad2deg()
    return {c: a for c, a, n in zip(classes.tolist(), degrees.tolist(), counts.tolist(), strict=True) if n > 1}


def mean_over(by_class: Mapping[int, float], classes: Iterable[int]) -> float:
    """The plain mean over these classes, without those that have no value; NaN if none has."""
    values = [by_class[c] for c in classes if c in by_class]
    return math.fsum(values) / len(values) if values else math.nan


def histogram(angles: Tensor, bins: int) -> Tensor:
    """Counts of these angles (in radians) in `bins` equal bins from 0 to 180 degrees."""
    place = (angles.double() / math.pi * bins).long().clamp(0, bins - 1)
    return torch.bincount(place.flatten(), minlength=bins)
