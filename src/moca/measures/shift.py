"""The distance between the BatchNorm statistics of two kinds of images."""

import torch

from moca.measures.batch_norm import Moments


def distance(a: Moments, b: Moments) -> float:
    """For one layer: the root mean over channels of ((mean_a - mean_b)^2 + (std_a - std_b)^2) / ((var_a + var_b) / 2).

    0 if both are the same; 1 if the means are one standard deviation apart. Channels without variance are left out.
    """
    mean_a, var_a, mean_b, var_b = (t.double() for t in (*a, *b))
    apart = (mean_a - mean_b) ** 2 + (var_a.sqrt() - var_b.sqrt()) ** 2
    both = (var_a + var_b) / 2
    alive = both > 1e-12
    return (apart[alive] / both[alive]).mean().sqrt().item() if torch.any(alive) else 0.0
