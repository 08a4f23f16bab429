"""The spectrum of feature gradients: in how many directions they point (the paper's Figs. 3 and 12)."""

import torch
from torch import Tensor


def gram(rows: Tensor) -> Tensor:
    """G^T G of rows g, in float64: adds up over batches, and its eigenvalues are the squared singular values."""
    precise = rows.double()
    return precise.T @ precise


def singular_values(gram: Tensor) -> Tensor:
    """Those of the rows that a Gram matrix is of, the largest first; below 1e-8 of it they are rounding."""
    squares: Tensor = torch.linalg.eigvalsh(gram)
    return squares.clamp_min(0).sqrt().flip(0)


def shares(values: Tensor) -> Tensor:
    """Singular values divided by their sum; all zero where they are."""
    total = values.sum()
    return values / total if total > 0 else torch.zeros_like(values)


def effective_rank(values: Tensor) -> float:
    """exp of the entropy of the shares (Roy and Vetterli, 2007): k for k equal values, 1 for one alone; 0 for none."""
    p = shares(values)
    return torch.exp(-torch.special.xlogy(p, p).sum()).item() if p.any() else 0.0
