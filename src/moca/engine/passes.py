"""The forward pass of a step: new and replayed samples share the encoder pass; BatchNorm treats them as separate
batches, or as one."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from moca.batch import Batch
from moca.learners import Learner
from moca.models.batch_norm.batches import batches_apart


class Passes:
    """Computes the features of the batches of a step, and the logits of the new batch.

    `rule` says which batches update BatchNorm's running statistics, which are used for testing: the replayed ones, in
    the first task the new one (`replay`); every batch once (`clean`); as in the official code (`official`); or a
    sequence such as nbb. It has no influence on training.
    """

    def __init__(self, rule: str, learner: Learner) -> None:
        self.rule, self.learner = rule, learner
        self.official = learner.official_passes(learner.perturbation) if rule == "official" else None

    def __call__(self, new: Batch, replays: Sequence[Batch]) -> tuple[Batch, list[Batch]]:
        """The same batches with features."""
        model, new = self.learner.model, self.learner.see(new)
        sizes = [len(batch.x) for batch in (new, *replays)]
        x = torch.cat([batch.x for batch in (new, *replays)])
        updates = self._updates(self._sequence(new, replays), len(sizes))
        with batches_apart([len(x)] if self.learner.together else sizes, updates):
            h = self.learner.encode(x)
        parts = h.split(sizes)
        new = new.replace(features=parts[0], logits=model.classify(parts[0]))
        return new, [replay.replace(features=part) for replay, part in zip(replays, parts[1:], strict=True)]

    def _sequence(self, new: Batch, replays: Sequence[Batch]) -> str:
        """The batches that update the statistics, as letters; empty means each batch once."""
        if self.rule == "clean" or self.learner.together:
            return ""
        if self.rule == "replay":
            return self.learner.batches[1:] if replays and not self.learner.first_task else "n"
        if self.official is None:
            return self.rule
        if not replays:
            return self.official.without_replay
        if self.learner.first_task:
            return self.official.first_task
        return self.official.later if self.learner.perturbs(new, replays[-1]) else self.official.unperturbed

    def _updates(self, sequence: str, there: int) -> list[int] | None:
        """The sequence as batch indices; replay batches that this step does not have are skipped."""
        if not sequence:
            return None
        letters = self.learner.batches[:there]
        return [letters.index(letter) for letter in sequence if letter in letters]
