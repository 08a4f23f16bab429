"""The singular values of feature gradients: in how many directions they point (the paper's Figs. 3 and 12)."""

import torch
from torch import Tensor


def gram(rows: Tensor) -> Tensor:
    """The Gram matrix G^T G of the rows, in float64. It adds up over batches; its eigenvalues are the squared singular
    values of G."""
    precise = rows.double()
    return precise.T @ precise


def singular_values(gram: Tensor) -> Tensor:
    """The singular values of G from its Gram matrix, largest first; those below 1e-8 of the largest are rounding."""
    squares: Tensor = torch.linalg.eigvalsh(gram)
    return squares.clamp_min(0).sqrt().flip(0)


def shares(values: Tensor) -> Tensor:
    """Singular values divided by their sum; zeros if all are zero."""
    total = values.sum()
    return values / total if total > 0 else torch.zeros_like(values)


def effective_rank(values: Tensor) -> float:
    """exp of the entropy of the shares (Roy and Vetterli, 2007): k for k equal values; 0 if all values are zero."""
    p = shares(values)
    return torch.exp(-torch.special.xlogy(p, p).sum()).item() if p.any() else 0.0
