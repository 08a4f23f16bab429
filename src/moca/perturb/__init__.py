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
    """A perturbation by name, such as `"gaussian"` or `"wap:lambda=1.5,steps=2"`, for any training loop.

    Call it between encoder and classifier: `f = perturb(Batch(features=h, old=mask), Batch(features=h_new, y=y_new))`.
    `wap`, `fgsm` and a few options ask for `model` (with `encode` and `classify`), `wap` for `lr`, `vt` for `classes`.
    A class or an object of your own is taken as well.
    """
    made: Perturbation = choice_of(PERTURBATIONS, spec).make()
    device = next(model.parameters()).device if model is not None else "cpu"
    return made.attach(Random(operator.index(seed), "perturb", device), model, lr, classes)
