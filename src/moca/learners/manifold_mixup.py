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
"""Samples are mixed at the input or after one of this many first stages."""


class ManifoldMixup(Learner):
    """ER on mixtures l a + (1 - l) b of all samples, new and replayed, and of their labels.

    In the adapted form, features of replayed old-class samples are mixed with those of new samples and keep their
    labels: MOCA's add_new with a random strength.
    """

    form: Literal["original", "adapted"] = option(
        "original", "mix all samples and their labels at a random layer, or mix new features into replayed old ones"
    )
    alpha: int = option(2, "shares are drawn from Beta(alpha, alpha); original form", ge=1, le=100)

    refuses = "it mixes features itself, in place of a perturbation"

    def encode(self, x: Tensor) -> Tensor:
        """Features of mixtures of the samples. The layer is drawn on the device; at the others, b has a share of 0."""
        if self.form == "adapted":
            return self.model.encode(x)
        self.share = beta(self.alpha, self.random)  # `losses` mixes the labels with the same share and partners
        self.partner = self.random.permutation(len(x))
        sites = 1 + min(_STAGES, len(getattr(self.model.encoder, "stages", ())))
        layer = (self.random.uniform(1)[0] * sites).long()
        partner_shares = iter([(layer == site) * (1 - self.share) for site in range(sites)])

        def mix(h: Tensor) -> Tensor:
            share = next(partner_shares, None)
            return h if share is None else h + share * (h[self.partner] - h)

        return self.model.encode(mix(x), after_stage=mix)

    def losses(self, new: Batch, *replays: Batch) -> Losses:
        """l CE(y_a) + (1 - l) CE(y_b), with one mean over new and one over replayed samples. In the adapted form, ER
        with new features mixed in."""
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
        """l h(old) + (1 - l) h(new) with l uniform in [1/2, 1]; the new features get no gradient."""
        if self.form == "original" or self.first_task:
            return replay.features
        half = self.random.uniform(1)[0]
        rows = paired(new.features.detach()[self.random.permutation(len(new.y))], len(replay.y))
        mixed = replay.features + torch.minimum(half, 1 - half) * (rows - replay.features)
        replay.moved = mixed if replay.old is None else torch.where(replay.old.unsqueeze(-1), mixed, replay.features)
        return replay.moved


def beta(alpha: int, random: Random) -> Tensor:
    """A sample from Beta(alpha, alpha), as the median of 2 alpha - 1 uniform samples."""
    return random.uniform(2 * alpha - 1).sort().values[alpha - 1]
