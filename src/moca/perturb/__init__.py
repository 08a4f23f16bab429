"""MOCA's perturbations: the seam between encoder and classifier."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from torch import Tensor

from moca.perturb.base import Perturbation, Unmoved
from moca.perturb.doa import DOANew, DOAOld
from moca.perturb.fgsm import FGSM
from moca.perturb.gaussian import Gaussian
from moca.perturb.new_feature import AddNew, MinusNew
from moca.perturb.vmf import VMF
from moca.perturb.vt import VT
from moca.perturb.wap import WAP
from moca.random import Random
from moca.settings.base import Settings, validate
from moca.settings.perturb import Choice

if TYPE_CHECKING:
    from moca.models import Model

__all__ = ["Perturbation", "perturbation"]

_VARIANTS: dict[str, type[Perturbation[Any]]] = {
    "none": Unmoved,
    "gaussian": Gaussian,
    "vmf": VMF,
    "doa_old": DOAOld,
    "doa_new": DOANew,
    "vt": VT,
    "wap": WAP,
    "add_new": AddNew,
    "minus_new": MinusNew,
    "fgsm": FGSM,
}


def perturbation(
    spec: str | dict[str, Any] | Settings,
    *,
    model: Model | None = None,
    lr: float | Tensor | None = None,
    classes: int | None = None,
    seed: int = 0,
) -> Perturbation[Any]:
    """A perturbation by name, such as `"gaussian"` or `"wap:lambda=1.5,steps=2"`, for any training loop.

    Call it between encoder and classifier: `f = perturb(Batch(features=h, old=mask), Batch(features=h_new, y=y_new))`.
    `wap`, `fgsm` and a few options ask for `model` (with `encode` and `classify`), `wap` for `lr`, `vt` for `classes`.
    """
    settings = validate(Choice, {"perturb": spec}).perturb
    device = next(model.parameters()).device if model is not None else "cpu"
    return _VARIANTS[settings.name](settings, Random(operator.index(seed), "perturb", device), model, lr, classes)
