"""The forward pass of a step: new and replayed samples through the encoder together, BatchNorm apart or together."""

from __future__ import annotations

import torch

from moca.batch import Batch
from moca.models import Model
from moca.models.norm import Shares, batches_apart
from moca.settings import Run
from moca.settings.run import OFFICIAL_FIRST_TASK, OFFICIAL_PASSES


class Passes:
    """Gives the batches of a step their features, and the new batch its logits."""

    def __init__(self, settings: Run, model: Model) -> None:
        self.model, self.together = model, settings.passes == "concatenated"
        self.shares: Shares = {}
        self.sequence = self.first_task_sequence = ""
        if settings.bn_passes == "official":
            method = (settings.learner.name, settings.perturb.name)
            self.sequence = OFFICIAL_PASSES[method]
            self.first_task_sequence = OFFICIAL_FIRST_TASK.get(method, "")
        elif settings.bn_passes != "clean":
            self.sequence = self.first_task_sequence = settings.bn_passes

    def __call__(self, new: Batch, replays: list[Batch], first_task: bool) -> tuple[Batch, list[Batch]]:
        """The same batches with features."""
        sizes = [len(batch.x) for batch in (new, *replays)]
        sequence = self.first_task_sequence if first_task else self.sequence
        x = torch.cat([batch.x for batch in (new, *replays)])
        updates = _updates(sequence, len(replays))
        with batches_apart([len(x)] if self.together else sizes, updates, x.device, self.shares):
            h = self.model.encode(x)
        parts = h.split(sizes)
        new = new.having(features=parts[0], logits=self.model.classify(parts[0]))
        return new, [replay.having(features=part) for replay, part in zip(replays, parts[1:], strict=True)]


def _updates(sequence: str, replays: int) -> list[int] | None:
    """The sequence as numbers of batches; passes of a replay batch that is not there are left out."""
    if not sequence:
        return None
    number = {"n": 0, "1": 1, "b": replays} if replays else {"n": 0}
    return [number[role] for role in sequence if role in number]
