"""Manifold mixup: experience replay on mixtures of samples, mixed at a random layer, with mixed labels.

Paper: Verma et al., ICML 2019, arXiv 1806.05236.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from moca.batch import Batch, paired
from moca.learners.base import Learner, Losses
from moca.parts import option
from moca.random import Random

_STAGES = 2
"""Mixed is the input, or what comes out of one of so many first stages."""


class ManifoldMixup(Learner):
    """ER on mixtures l a + (1 - l) b of samples, new and replayed alike, which have both labels.

    Adapted: features of replayed old-class samples are mixed with those of new ones, and keep their label. That is
    MOCA's adding of new features, of a random strength.
    """

    form: Literal["original", "adapted"] = option(
        "original", "mix all samples at a random layer with their labels, or new features into replayed old ones"
    )
    alpha: int = option(2, "shares are drawn from Beta(alpha, alpha); original form", ge=1, le=100)

    refuses = "it mixes features itself, in place of a perturbation"

    def encode(self, x: Tensor) -> Tensor:
        """Features of mixtures of the samples. The layer is drawn on the device: at the others, a alone is left."""
        if self.form == "adapted":
            return self.model.encode(x)
        self.share = beta(self.alpha, self.random)  # `losses` mixes the labels with the same share and partners
        self.partner = self.random.permutation(len(x))
        sites = 1 + min(_STAGES, len(getattr(self.model.encoder, "stages", ())))
        layer = (self.random.uniform(1)[0] * sites).long()
        others = iter([(layer == site) * (1 - self.share) for site in range(sites)])

        def mix(h: Tensor) -> Tensor:
            other = next(others, None)
            return h if other is None else h + other * (h[self.partner] - h)

        return self.model.encode(mix(x), after_stage=mix)

    def losses(self, new: Batch, *replays: Batch) -> Losses:
        """l CE(y_a) + (1 - l) CE(y_b), new and replayed samples a mean each; or ER with new features mixed in."""
        logits = [new.logits] + [self.model.classify(self._mixed(replay, new)) for replay in replays]
        batches = dict(zip(("new", "replay"), (new, *replays), strict=False))
        y = torch.cat([batch.y for batch in batches.values()])
        each = F.cross_entropy(torch.cat(logits), y, reduction="none")
        if self.form == "original":
            each = self.share * each + (1 - self.share) * F.cross_entropy(
                torch.cat(logits), y[self.partner], reduction="none"
            )
        parts = each.split([len(batch.y) for batch in batches.values()])
        return {name: part.mean() for name, part in zip(batches, parts, strict=True)}

    def _mixed(self, replay: Batch, new: Batch) -> Tensor:
        """l h(old) + (1 - l) h(new), l uniform on the upper half; nothing flows back into the new features."""
        if self.form == "original" or self.first_task:
            return replay.features
        half = self.random.uniform(1)[0]
        rows = paired(new.features.detach()[self.random.permutation(len(new.y))], len(replay.y))
        mixed = replay.features + torch.minimum(half, 1 - half) * (rows - replay.features)
        replay.moved = mixed if replay.old is None else torch.where(replay.old.unsqueeze(-1), mixed, replay.features)
        return replay.moved


def beta(alpha: int, random: Random) -> Tensor:
    """A number from Beta(alpha, alpha): the middle one of 2 alpha - 1 uniform ones."""
    return random.uniform(2 * alpha - 1).sort().values[alpha - 1]
