"""Forward passes of a step: which samples go through the encoder together, and which passes move BatchNorm."""

from __future__ import annotations

import torch
from torch import Tensor

from moca.batch import Batch
from moca.errors import MocaError
from moca.models import Model
from moca.settings import Run

# The official code's training-mode passes in order, n = new batch, b = replay batch (for derpp: 1 = the draw for the
# logits). Every pass moves the running statistics of BatchNorm, so the sequence decides what they are at test time.
_OFFICIAL = {
    ("er", "none"): "nbbb",
    ("er", "wap"): "nbb",
    ("er", "vt"): "nbb",
    ("er", "vmf"): "nbb",
    ("er", "doa_old"): "nbbb",
    ("er", "gaussian"): "nbbn",
    ("er", "doa_new"): "nbbn",
    ("er", "add_new"): "nbbn",
    ("er_ace", "wap"): "nnbnb",
    ("derpp", "wap"): "n1nbb",
}
_OFFICIAL_FIRST_TASK = {("er", "none"): "nbb"}


class Passes:
    """Gives the batches of a step their features, and the new batch its logits."""

    def __init__(self, settings: Run, model: Model) -> None:
        self.model, self.together = model, settings.passes == "concatenated"
        self.first_sequence = self.later_sequence = ""
        if settings.bn_passes == "official":
            key = (settings.learner.name, settings.perturb.name)
            if key not in _OFFICIAL:
                known = ", ".join("+".join(k) for k in _OFFICIAL)
                raise MocaError(
                    f"bn_passes=official is known only for {known}; use bn_passes=clean for {'+'.join(key)}"
                )
            if self.together:
                raise MocaError("bn_passes=official means separate passes; use passes=separate")
            self.later_sequence = _OFFICIAL[key]
            self.first_sequence = _OFFICIAL_FIRST_TASK.get(key, "n1b" if "1" in self.later_sequence else "nb")

    def __call__(self, new: Batch, replays: list[Batch], first_task: bool) -> tuple[Batch, list[Batch]]:
        """The same batches with features."""
        if self.together and replays:
            features = self._one_pass([new, *replays])
        else:
            features = self._one_each([new, *replays], self.first_sequence if first_task else self.later_sequence)
        new = new.having(features=features[0], logits=self.model.classify(features[0]))
        return new, [replay.having(features=h) for replay, h in zip(replays, features[1:], strict=True)]

    def _one_pass(self, batches: list[Batch]) -> list[Tensor]:
        h = self.model.encode(torch.cat([b.x for b in batches]))
        return list(h.split([len(b.x) for b in batches]))

    def _one_each(self, batches: list[Batch], sequence: str) -> list[Tensor]:
        """One pass a batch; a sequence adds passes that only move BatchNorm, each at its place."""
        roles = dict(zip("nb" if len(batches) < 3 else "n1b", batches, strict=False))
        rest, features = list(sequence), []
        for role, batch in roles.items():
            while rest and rest[0] != role:
                self._statistics_only(roles.get(rest.pop(0)))
            features.append(self.model.encode(batch.x))
            rest = rest[1:]
        for role in rest:
            self._statistics_only(roles.get(role))
        return features

    @torch.no_grad()
    def _statistics_only(self, batch: Batch | None) -> None:
        if batch is not None:
            self.model.encode(batch.x)
