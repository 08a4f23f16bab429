"""MOCA's perturbations, the seam between encoder and classifier: every file but `base` is one and bears its name."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from torch import Tensor

from moca.parts import PERTURBATIONS
from moca.perturb.base import Perturbation
from moca.random import Random
from moca.settings.choice import choice_of

if TYPE_CHECKING:
    from moca.models import Model

__all__ = ["Perturbation", "perturbation"]


def perturbation(
    spec: Any,
    *,
    model: Model | None = None,
    lr: float | Tensor | None = None,
    classes: int | None = None,
    seed: int = 0,
) -> Perturbation:
    """MOCA for any training loop: what moves features of replayed old-class samples, between encoder and classifier.

    Args:
        spec: Its name with its options, such as `"gaussian"` or `"wap:lambda=1.5,steps=2"` (`moca ls`); or a class or
            an object of your own, of which a copy is taken.
        model: The network in two halves, which `wap`, `fgsm`, `mrfa` and a few options of others ask.
        lr: The current learning rate, for `wap`; a tensor follows your schedule.
        classes: How many classes there are or will be, for `vt`.
        seed: Of its random numbers; where several processes train one model, each needs its own.

    Returns:
        The perturbation, to be called with the replayed batch, and the new one where it looks at that.

    Example:
        >>> perturb = moca.perturbation("gaussian:lambda=2")
        >>> h, old = torch.randn(3, 8), torch.tensor([True, True, False])
        >>> f = perturb(moca.Batch(features=h, old=old))
        >>> (f != h).any(1).tolist()
        [True, True, False]
    """
    made: Perturbation = choice_of(PERTURBATIONS, spec).make()
    return made.attach(Random(operator.index(seed), "perturb"), model, lr, classes)
