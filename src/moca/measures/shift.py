"""How far the BatchNorm statistics of two kinds of images are from each other."""

import torch

from moca.measures.batch_norm import Moments


def distance(a: Moments, b: Moments) -> float:
    """Of one layer: the root mean over its channels of ((mean_a - mean_b)^2 + (std_a - std_b)^2) / ((var_a + var_b)/2).

    0 where both are the same; 1 where means are a standard deviation apart. Channels that never vary are left out.
    """
    mean_a, var_a, mean_b, var_b = (t.double() for t in (*a, *b))
    apart = (mean_a - mean_b) ** 2 + (var_a.sqrt() - var_b.sqrt()) ** 2
    both = (var_a + var_b) / 2
    alive = both > 1e-12
    return (apart[alive] / both[alive]).mean().sqrt().item() if torch.any(alive) else 0.0
