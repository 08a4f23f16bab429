"""What a perturbation must be given: in a training loop of the user's own, a mistake is told in one line."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from moca.batch import Batch, in_short
from moca.errors import MocaError


def refuse_unfit(replay: Any, new: Any, with_images: bool) -> None:
    """Raise an error if replayed and new samples cannot be used; if `with_images`, the replayed ones need images."""
    if not isinstance(replay, Batch):
        raise TypeError(f"a perturbation moves a moca.Batch(features=h, old=...), not {type(replay).__name__}")
    if new is not None and not isinstance(new, Batch):
        raise TypeError(f"the new samples are a moca.Batch(features=h_new, ...), not {type(new).__name__}")
    h, old = replay.features, replay.old
    if not isinstance(h, Tensor):
        raise TypeError(f"features= is a tensor, not {type(h).__name__}")
    if h.dim() != 2 or not h.is_floating_point():
        kind = f"{str(h.dtype).removeprefix('torch.')} of {tuple(h.shape)}"
        raise ValueError(f"features= are floats of (n, d), one vector a sample, not {kind}; flatten or pool them")
    if old is not None and not (isinstance(old, Tensor) and old.dtype == torch.bool and old.shape == h.shape[:1]):
        raise ValueError(f"old= is a tensor of {len(h)} truth values, one for each row of features")
    if with_images and len(x := getattr(replay, "x", h)) != len(h):
        raise ValueError(f"x= has {len(x)} samples and features= {len(h)} rows; give both of the same samples")
    beside = getattr(new, "features", h)
    if isinstance(beside, Tensor) and beside.shape[1:] != h.shape[1:]:
        raise ValueError(
            f"features of new samples are {tuple(beside.shape)} and of replayed ones {tuple(h.shape)}; take both "
            "from the same layer"
        )


def refuse_no_direction(n: Any, h: Tensor, name: str) -> None:
    """Raise a `MocaError` if `n`, which the perturbation of this name returned, has no row for each feature of h."""
    if not isinstance(n, Tensor) or n.shape != h.shape:
        got = f"one of {tuple(n.shape)}" if isinstance(n, Tensor) else f"a {type(n).__name__}"
        raise MocaError(f"direction of '{name}' must return a tensor of {tuple(h.shape)}, not {got}")


def refuse_no_rate(lr: object) -> None:
    """Raise an error if `lr` is given, but is no learning rate."""
    if not (lr is None or isinstance(lr, Real | Optimizer) or (isinstance(lr, Tensor) and lr.numel() == 1)):
        got = repr(lr) if isinstance(lr, str) else f"a {type(lr).__name__}"
        raise TypeError(f"lr= is the optimiser, or the learning rate as a number or a tensor of one, not {got}")


def refuse_no_count(classes: object) -> None:
    """Raise an error if `classes` is given, but is no number of classes."""
    if classes is not None and (type(classes) is bool or not isinstance(classes, Integral) or classes < 1):
        raise TypeError(f"classes= is how many classes there are or will be, a whole number, not {classes!r}")


def class_numbers(y: Tensor, rows: int, classes: int) -> Tensor:
    """The labels of some rows, which must be classes from 0 to `classes` - 1. On a GPU only their type and shape are
    checked, because reading them would stall the step."""
    if not isinstance(y, Tensor) or y.dtype != torch.int64 or y.shape != (rows,):
        raise ValueError(f"y= is a tensor of class numbers, int64 of ({rows},), one for each row, not {in_short(y)}")
    if y.is_cpu and rows and not torch.compiler.is_compiling():
        low, high = map(int, y.aminmax())
        if low < 0 or high >= classes:
            wrong = low if low < 0 else high
            raise ValueError(f"y= has a label {wrong}, but classes are 0 to {classes - 1}: there are {classes} of them")
    return y
