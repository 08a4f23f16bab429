"""Which rows go together, in shapes that do not depend on the data."""

import torch
from torch import Tensor


def paired(rows: Tensor, count: int) -> Tensor:
    """`count` rows, one for each replayed sample: the given ones, again from the start where they are too few."""
    return rows if len(rows) == count else rows[torch.arange(count, device=rows.device) % len(rows)]


def old_rows_in_turn(old: Tensor | None, batch: Tensor) -> tuple[Tensor, Tensor]:
    """As many row numbers as the batch has, old rows only, repeated in turn; and weights that make a sum their mean.

    A row counts once, however often it is repeated. Without `old` every row counts; where no row is old, none does.
    """
    count = len(batch)
    every = torch.arange(count, device=batch.device)
    if old is None:
        return every, torch.full((count,), 1 / count, device=batch.device)
    number = old.sum()
    divisor = number.clamp_min(1)
    rows = torch.searchsorted(old.cumsum(0), every % divisor, right=True).clamp_max(count - 1)
    return rows, (every < number) / divisor
