"""Which rows go together, in shapes that do not depend on the data."""

import torch
from torch import Tensor


def paired(rows: Tensor, count: int) -> Tensor:
    """`count` rows, one for each replayed sample: the given ones, again from the start where they are too few."""
    return rows if len(rows) == count else rows[torch.arange(count, device=rows.device) % len(rows)]


def shares(old: Tensor | None, batch: Tensor) -> Tensor:
    """The share of each row in a mean over the old ones: all have the same without `old`, none has any if none is."""
    precise = torch.promote_types(batch.dtype, torch.float32)
    if old is None:
        return torch.full((len(batch),), 1 / len(batch), device=batch.device, dtype=precise)
    return old.to(precise) / old.sum().clamp_min(1)
