"""Which rows go together, in shapes that do not depend on the data."""

import torch
from torch import Tensor

from moca import kernels


def paired(rows: Tensor, count: int) -> Tensor:
    """`count` rows, one for each replayed sample: the given ones, again from the start where they are too few."""
    return rows if len(rows) == count else rows[torch.arange(count, device=rows.device) % len(rows)]


def old_rows_in_turn(old: Tensor | None, batch: Tensor) -> tuple[Tensor, Tensor]:
    """As many row numbers as the batch has, old rows only, repeated in turn; and weights that make a sum their mean.

    A row counts once, however often it is repeated. Without `old` every row counts; where no row is old, none does.
    """
    count, device = len(batch), batch.device
    if old is None:
        return torch.arange(count, device=device), torch.full((count,), 1 / count, device=device)
    if kernels.usable(batch):
        from moca.kernels import adversary

        if count <= adversary.MOST_ROWS:
            return adversary.rows_in_turn(old)
    every, number = torch.arange(count, device=device), old.sum()
    divisor = number.clamp_min(1)
    rows = torch.searchsorted(old.cumsum(0), every % divisor, right=True).clamp_max(count - 1)
    return rows, (every < number) / divisor
