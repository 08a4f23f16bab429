"""Optimisers whose learning rate is a tensor, so that a recorded step follows the schedule."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from moca.settings import optimisers as settings

Kind = TypeVar("Kind", bound=Optimizer)
_KEEP_OUT = {"_disable_dynamo.<locals>.inner", "_use_grad_for_differentiable.<locals>._use_grad"}
"""What torch wraps around methods of optimisers to keep torch.compile out of them."""

_WAYS = ("fused", "foreach", "capturable")
"""What an optimiser of torch's keeps with its state, but which follows from the device."""


def uncompiled(kind: type[Kind]) -> type[Kind]:
    """An optimiser of torch's without what keeps torch.compile out of its methods.

    moca compiles encoders and never an optimiser, but those wrappers import all of torch.compile when they are first
    called, which takes as long as torch itself. A torch that has others keeps them, and only starts more slowly.
    """
    methods: dict[str, Any] = {}
    for name in ("add_param_group", "state_dict", "load_state_dict", "zero_grad", "step"):
        method: Any = getattr(kind, name)
        code = getattr(method, "__code__", None)
        if code and code.co_qualname in _KEEP_OUT:
            methods[name] = method.__wrapped__
    if "step" in methods:
        methods["step"] = torch.no_grad()(methods["step"])  # as its wrapper does
    return type(kind.__name__, (kind,), {"__module__": __name__, **methods})


SGD, Adam, AdamW = uncompiled(torch.optim.SGD), uncompiled(torch.optim.Adam), uncompiled(torch.optim.AdamW)


def build_optimiser(
    choice: settings.SGD | settings.Adam | settings.AdamW, parameters: Iterable[nn.Parameter], lr: Tensor
) -> Optimizer:
    """The optimiser that the settings ask for, over the parameters that are trained."""
    trained = [p for p in parameters if p.requires_grad]
    on_gpu = lr.device.type == "cuda"  # the other kinds read the learning rate back to the host
    if isinstance(choice, settings.SGD):
        return SGD(
            trained, lr, choice.momentum, weight_decay=choice.weight_decay, nesterov=choice.nesterov, fused=on_gpu
        )
    kind = AdamW if isinstance(choice, settings.AdamW) else Adam
    return kind(
        trained, lr, (choice.beta1, choice.beta2), choice.eps, choice.weight_decay, capturable=on_gpu, fused=on_gpu
    )


def load_optimiser(optimiser: Optimizer, state: dict[str, object], lr: Tensor) -> None:
    """Go on from where `state` was taken, with the learning rate still that tensor, and in the way of this device."""
    kept = cast("list[dict[str, Any]]", state["param_groups"])
    ways = [{name: group[name] for name in _WAYS if name in group} for group in optimiser.param_groups]
    groups = [group | way for group, way in zip(kept, ways, strict=True)]
    optimiser.load_state_dict(state | {"param_groups": groups})
    for group in optimiser.param_groups:
        group["lr"] = lr


def carry_over(old: Optimizer, new: Optimizer, renewed: dict[nn.Parameter, nn.Parameter]) -> None:
    """Give the new optimiser the old one's state, where `renewed` parameters have taken the place of shorter ones: what
    it knows about rows that have come is zero."""
    for parameter, before in renewed.items():
        if before in old.state:
            new.state[parameter] = {name: _longer(v, before, parameter) for name, v in old.state[before].items()}


def _longer(value: object, before: Tensor, now: Tensor) -> object:
    if not isinstance(value, Tensor) or value.shape != before.shape or before.shape == now.shape:
        return value
    longer = torch.zeros_like(now)
    longer[: len(value)] = value
    return longer
