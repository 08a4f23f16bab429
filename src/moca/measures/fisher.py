"""Angular Fisher score: spread within classes over spread between them, by cosines; lower is better (Table 13)."""

import math

from torch import Tensor

from moca import sphere


def angular_fisher_score(features: Tensor, labels: Tensor, unit: bool = False) -> float:
    """S_w / S_b, where S_w sums 1 - cos(x, m_c) over samples, and S_b sums n_c (1 - cos(m_c, m)) over classes.

    m_c is the mean of a class, m that of all samples; with `unit`, of features scaled to unit length. NaN if S_b is 0.
    """
    x = sphere.project(features.double()) if unit else features.double()
    classes, place, counts = labels.unique(return_inverse=True, return_counts=True)
    sums = x.new_zeros(len(classes), x.shape[1]).index_add_(0, place, x)
    within = (1 - _cosine(x, sums[place])).sum()
    between = (counts * (1 - _cosine(sums, x.sum(0, keepdim=True)))).sum()
    return (within / between).item() if between > 1e-12 * len(x) else math.nan


def _cosine(a: Tensor, b: Tensor) -> Tensor:
    return (sphere.project(a) * sphere.project(b)).sum(-1)
