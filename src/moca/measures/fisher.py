"""Angular Fisher score: spread within classes over spread between them, by cosines; lower is better (Table 13)."""

import math

from torch import Tensor

from moca import sphere


def angular_fisher_score(features: Tensor, labels: Tensor, unit: bool = False) -> float:
    """S_w / S_b with S_w the sum over samples of 1 - cos(x, m_c), and S_b that over classes of n_c (1 - cos(m_c, m)).

    m_c is the mean of a class, m that of all samples; with `unit`, of features brought to unit length. NaN where
    nothing lies between classes.
    """
    x = sphere.project(features.double()) if unit else features.double()
    classes, place, counts = labels.unique(return_inverse=True, return_counts=True)
    sums = x.new_zeros(len(classes), x.shape[1]).index_add_(0, place, x)
    within = (1 - _cosine(x, sums[place])).sum()
    between = (counts * (1 - _cosine(sums, x.sum(0, keepdim=True)))).sum()
    return (within / between).item() if between > 1e-12 * len(x) else math.nan


def _cosine(a: Tensor, b: Tensor) -> Tensor:
    return (sphere.project(a) * sphere.project(b)).sum(-1)
