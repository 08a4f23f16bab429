"""MOCA's perturbations, applied between encoder and classifier: every file except `base` is one and has its name."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.optim import Optimizer

from moca.errors import MocaError
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
    lr: float | Tensor | Optimizer | None = None,
    classes: int | None = None,
    seed: int = 0,
    **options: Any,
) -> Perturbation:
    """Create a perturbation, which moves the features of replayed old-class samples in any training loop.

    Args:
        spec: The name with options, such as `"gaussian"` or `"wap:lambda=1.5,steps=2"` (`moca ls`); or your own class,
            or an object of it, which is copied.
        model: The network in two halves; needed by `wap`, `fgsm`, `mrfa` and a few options of others.
        lr: The optimiser, whose learning rate `wap` follows; or the rate, as a number or a tensor that you change.
        classes: How many classes there are or will be, for `vt`.
        seed: The seed of its random numbers; if several processes train one model, give each its own.
        **options: Not taken here; options follow the name, as in `"gaussian:lambda=2"`.

    Returns:
        The perturbation. Call it with the replayed batch, and with the new batch if it uses one.

    Example:
        >>> perturb = moca.perturbation("gaussian:lambda=2")
        >>> h, old = torch.randn(3, 8), torch.tensor([True, True, False])
        >>> f = perturb(moca.Batch(features=h, old=old))
        >>> (f != h).any(1).tolist()
        [True, True, False]
    """
    if options:
        given = ",".join(f"{'lambda' if name == 'lam' else name}={value}" for name, value in options.items())
        whole = f"'{spec}{',' if ':' in spec else ':'}{given}'" if isinstance(spec, str) else "an object made with them"
        raise MocaError(f"moca.perturbation takes options with the name: {whole}")
    made: Perturbation = choice_of(PERTURBATIONS, spec).make()
    return made.attach(Random(operator.index(seed), "perturb"), model, lr, classes)
